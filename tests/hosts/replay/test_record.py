"""What is recorded: calls without content, in files that are replayed as what they were made of."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.replay import Files, calls_of, record, replay_calls
from spanfuse_schemas import Policy
from tests.support.late import late_run
from tests.support.recorded import healthy, repeater, write_lines


def recording(folder: Path) -> Files:
    late = [json.loads(line) for n in range(4) for line in late_run(n)]
    return Files((write_lines(folder / "r.jsonl", ["garbage", *repeater(6), *healthy(8), *late]),))


def report(source: Files) -> str:
    with calls_of(source) as spool:
        return json.dumps(replay_calls(spool, [Policy()])[0].to_dict())


def test_files_are_begun_anew_when_they_are_large_and_are_replayed_together(tmp_path: Path) -> None:
    """What could not be read is told by the record, too."""
    source = recording(tmp_path)
    written = record(source, Config(), tmp_path / "out", name="x", max_bytes=4000)
    assert [path.name for path in written.files[:2]] == ["x-00001.calls.jsonl.gz", "x-00002.calls.jsonl.gz"]
    assert len(written.files) > 3
    assert report(Files((tmp_path / "out",))) == report(source)
    assert json.loads(report(source))["undecodable"] == 1


def test_one_file_is_never_divided_and_holds_no_word_of_a_content(tmp_path: Path) -> None:
    written = record(recording(tmp_path), Config(), tmp_path / "out.jsonl.gz", max_bytes=10)
    data = gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes())
    assert written.files == (tmp_path / "out.jsonl.gz",)
    assert written.calls == data.count(b'"trace_id":"') - data.count(b'"into"')
    assert not any(word in data for word in (b"weather", b"Tokyo", b"moss", b"there yet", b"answer 1"))


def test_what_a_newer_or_another_writer_has_added_to_calls_is_left_out(tmp_path: Path) -> None:
    source = recording(tmp_path)
    record(source, Config(), tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    lines[0] = lines[0].replace('"trace_id"', '"prompt":"my secret","trace_id"', 1)
    (tmp_path / "b.calls.jsonl").write_text("\n".join(lines))
    record(Files((tmp_path / "b.calls.jsonl",)), Config(), tmp_path / "c.jsonl")
    assert "secret" not in (tmp_path / "c.jsonl").read_text()
    assert report(Files((tmp_path / "c.jsonl",))) == report(source)
