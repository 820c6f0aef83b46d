"""Write docs/configuration.md, the JSON schema and the comments of config.yaml, from mlm/config/.

.venv/bin/python scripts/generate_config.py
"""

from pathlib import Path

from mlm.config.reference import config_yaml, configuration_md, schema_yaml

BASE = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    shown = BASE / "config.yaml"
    shown.write_text(config_yaml(shown.read_text(encoding="utf-8")), encoding="utf-8")
    (BASE / "docs" / "configuration.md").write_text(configuration_md(), encoding="utf-8")
    (BASE / "schemas" / "config.schema.yaml").write_text(schema_yaml(), encoding="utf-8")
