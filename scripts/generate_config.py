"""Write docs/configuration.md and the JSON schema from the sections in mlm/config/.

.venv/bin/python scripts/generate_config.py
"""

from pathlib import Path

from mlm.config.reference import configuration_md, schema_yaml

BASE = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    (BASE / "docs" / "configuration.md").write_text(configuration_md(), encoding="utf-8")
    (BASE / "schemas" / "config.schema.yaml").write_text(schema_yaml(), encoding="utf-8")
