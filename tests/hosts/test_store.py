"""The SQLite store: what was committed is there again, what grows has a bound, what cannot be used is one clear line."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import StateError, UnavailableError
from spanfuse_processor.hosts import store as module
from spanfuse_processor.hosts.store import Changes, Store
from spanfuse_schemas import Decision, Detection
from tests.support.shown import detections


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "spanfuse.db")


@pytest.fixture
def store(path: str) -> Iterator[Store]:
    opened = Store(path)
    yield opened
    opened.close()


def state(key: str, epoch: int = 0) -> SessionState:
    made = SessionState(key)
    made.calls, made.epoch = 7, epoch
    return made


def decision(key: str, epoch: int = 1, *, blocks: bool = True) -> Decision:
    return Decision(
        key=key,
        state="open" if blocks else "closed",
        action="block" if blocks else "allow",
        issued_at_ns=1,
        epoch=epoch,
    )


def detection(number: int) -> Detection:
    return Detection(
        id=str(number), rule="cycle", action="block", mode="block", session="s", call=number, at_ns=number, message="m"
    )


def test_what_was_committed_is_there_after_a_restart(path: str, store: Store) -> None:
    store.commit(
        Changes(
            [state("a"), state("b\ud800")], [decision("session:a")], [detection(1)], {"calls": 3, "spans": 0}, at_ns=5
        )
    )
    store.bury(b"\x00garbage", "no spans", 9, {"dead_letters": 1})
    store.close()
    again = Store(path)
    found = again.load("b\ud800")
    assert found is not None
    assert SessionState.restore(found).calls == 7
    assert again.load("c") is None
    assert [d.key for d in again.decisions()] == ["session:a"]
    assert [d.id for d in detections(again, 10)] == ["1"]
    assert again.totals() == {"calls": 3, "dead_letters": 1}
    assert again.dead_letters(10) == [{"at_ns": 9, "reason": "no spans", "size": 8, "data": b"\x00garbage"}]
    assert again.sessions() == 2
    again.close()


def test_totals_grow_by_what_is_added(store: Store) -> None:
    store.commit(Changes(counts={"calls": 3}))
    store.commit(Changes(counts={"calls": 4, "late": 1}))
    assert store.totals() == {"calls": 7, "late": 1}


def test_a_decision_that_allows_takes_the_key_away(store: Store) -> None:
    store.commit(Changes(decisions=[decision("session:a", 1), decision("session:a", 2), decision("session:b", 1)]))
    assert [(d.key, d.epoch) for d in store.decisions()] == [("session:a", 2), ("session:b", 1)]
    store.commit(Changes(decisions=[decision("session:a", 3, blocks=False)]))
    assert [d.key for d in store.decisions()] == ["session:b"]


def test_a_failed_commit_leaves_nothing(store: Store) -> None:
    class Full(SessionState):
        def snapshot(self) -> bytes:
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(UnavailableError, match=r"storage .*spanfuse\.db: database or disk is full"):
        store.commit(Changes([state("a"), Full("b")], [decision("session:a")], [detection(1)], {"calls": 1}))
    assert (store.load("a"), store.decisions(), detections(store), store.totals()) == (None, [], [], {})
    store.commit(Changes([state("a")]))
    assert store.load("a") is not None


def test_detections_and_dead_letters_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DETECTIONS", 5)
    monkeypatch.setattr(module, "MAX_DEAD_LETTERS", 3)
    for start in range(0, 12, 4):
        store.commit(Changes(detections=[detection(n) for n in range(start, start + 4)]))
    assert [d.call for d in detections(store, 100)] == [11, 10, 9, 8, 7]
    assert [d.call for d in detections(store, 2)] == [11, 10]
    for n in range(5):
        store.bury(bytes(100_000), f"letter {n}", n, {})
    kept = store.dead_letters(100)
    assert [(k["at_ns"], k["size"], len(k["data"])) for k in kept] == [(n, 100_000, 64 * 1024) for n in (4, 3, 2)]


def test_idle_sessions_are_found_and_forgotten_but_their_epoch_is_not(store: Store) -> None:
    store.commit(Changes([state("old", 4), state("never decided")], [decision("session:old", 4)], at_ns=10))
    store.commit(Changes([state("new", 2)], at_ns=20))
    assert store.idle(before_ns=20, limit=10) == ["old", "never decided"]
    assert store.idle(before_ns=20, limit=1) == ["old"]
    store.forget(["old", "never decided"], [decision("session:old", 5, blocks=False)], {"expired_sessions": 2})
    assert (store.load("old"), store.decisions(), store.sessions()) == (None, [], 1)
    assert [store.last_epoch(s) for s in ("old", "never decided", "new", "unknown")] == [5, 0, 2, 0]
    assert store.totals() == {"expired_sessions": 2}


def test_a_session_and_a_scope_of_one_name_never_lower_one_another_s_epoch(store: Store) -> None:
    """A session without an id is named after its trace, as the scope of that trace is."""
    scope = ScopeState("trace:t")
    scope.epoch = 1
    store.commit(Changes([state("trace:t", 7)], scopes=[(scope, 1)]))
    store.forget(["trace:t"], [], {})
    store.forget_scopes(["trace:t"], [decision("trace:t", 2, blocks=False)], {})
    assert store.last_epoch("trace:t") == 7
    assert store.last_scope_epoch("trace:t") == 7


def test_epochs_of_ended_sessions_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENDED", 2)
    for name in ("a", "b", "c"):
        store.commit(Changes([state(name, 3)]))
        store.forget([name], [], {})
    assert [store.last_epoch(name) for name in ("a", "b", "c")] == [0, 3, 3]


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    memory = Store("")
    memory.commit(Changes([state("a")]))
    assert memory.load("a") is not None
    memory.checkpoint()
    memory.close()
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_may_run_while_others_write(store: Store, path: str) -> None:
    store.commit(Changes([state(str(n)) for n in range(100)]))
    store.checkpoint()
    store.commit(Changes([state("later")]))
    assert store.sessions() == 101
    assert Path(path).stat().st_size > 4096


def test_the_file_is_for_its_owner_only(store: Store, path: str) -> None:
    assert Path(path).stat().st_mode & 0o077 == 0


def test_a_new_file_is_never_open_to_others(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even between its creation and its first table, nor is its log."""
    modes: list[int] = []
    connect = sqlite3.connect

    def connected(name: str, **options: Any) -> sqlite3.Connection:
        modes.append(Path(name).stat().st_mode & 0o777)
        opened: sqlite3.Connection = connect(name, **options)
        return opened

    monkeypatch.setattr(sqlite3, "connect", connected)
    before = os.umask(0)
    try:
        made = Store(path)
    finally:
        os.umask(before)
    made.commit(Changes([state("a")]))
    assert modes == [0o600]
    assert [p.stat().st_mode & 0o077 for p in Path(path).parent.iterdir()] == [0] * 4  # with lock, log and its index
    made.close()


def test_an_empty_file_and_one_of_ours_become_private(path: str) -> None:
    for _ in range(2):
        Path(path).touch()
        Path(path).chmod(0o644)
        Store(path).close()
        assert Path(path).stat().st_mode & 0o077 == 0


def test_the_file_is_known_as_ours_before_its_log_is_merged(path: str) -> None:
    """Else a host that is killed early could not start again."""
    code = f"import os\nfrom spanfuse_processor.hosts.store import Store\nStore({path!r})\nos._exit(9)"
    subprocess.run([sys.executable, "-c", code], timeout=30, check=False)
    Store(path).close()


def test_what_is_no_regular_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o644)
    (tmp_path / "folder").mkdir()
    (tmp_path / "null").symlink_to("/dev/null")
    before = [(p, p.stat().st_mode) for p in sorted(tmp_path.iterdir())]
    for path, _ in before:
        assert refused(str(path), StateError) == f"storage {path}: not a regular file"
    assert [(p, p.stat().st_mode) for p in sorted(tmp_path.iterdir())] == before


@pytest.mark.parametrize("kind", ["text", "rollback", "log"])
def test_a_file_of_others_is_not_touched(path: str, kind: str) -> None:
    other = None
    if kind == "text":
        Path(path).write_text("notes\n")
    else:
        other = sqlite3.connect(path)
        other.execute("PRAGMA journal_mode = " + ("WAL" if kind == "log" else "DELETE"))
        other.execute("CREATE TABLE invoices (n)")
        other.commit()
    Path(path).chmod(0o644)
    before = (Path(path).read_bytes(), Path(path).stat().st_mode, Path(path).stat().st_mtime_ns)
    refused(path, StateError)
    assert (Path(path).read_bytes(), Path(path).stat().st_mode, Path(path).stat().st_mtime_ns) == before
    if other is not None:
        other.close()


def test_a_second_process_is_told_that_the_file_is_in_use(store: Store, path: str) -> None:
    code = f"from spanfuse_processor.hosts.store import Store\ntry: Store({path!r})\nexcept Exception as e: print(e)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True).stdout
    assert said == f"storage {path}: another process uses it; is `spanfuse up` running already?\n"


def test_a_lock_of_another_program_is_an_error_that_passes(store: Store, path: str) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match="database is locked"):
        store.commit(Changes([state("a")]))
    other.execute("ROLLBACK")
    other.close()
    store.commit(Changes([state("a")]))


def refused(path: str, kind: type[Exception]) -> str:
    with pytest.raises(kind) as told:
        Store(path)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_a_file_that_is_no_database_is_one_line(path: str) -> None:
    Path(path).write_bytes(b"not a database, but long enough to have a header of one hundred bytes" * 9)
    assert refused(path, StateError) == (
        f"storage {path}: not a database, or damaged (file is not a database); move the file away to start anew"
    )


def test_a_damaged_database_is_one_line(path: str) -> None:
    made = Store(path)
    made.commit(Changes([state(str(n)) for n in range(50)]))
    made.close()
    data = bytearray(Path(path).read_bytes())
    data[100:4096] = b"\xff" * 3996
    Path(path).write_bytes(data)
    assert "damaged" in refused(path, StateError)


def test_the_database_of_another_program_is_left_alone(path: str) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE invoices (n)")
    other.close()
    assert refused(path, StateError) == f"storage {path}: the database of another program"


def test_another_version_is_left_alone(path: str) -> None:
    Store(path).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    assert "version 99, and this build reads 1" in refused(path, StateError)


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    path = str(tmp_path / "missing" / "spanfuse.db")
    assert "No such file or directory" in refused(path, UnavailableError)


def test_after_a_refusal_the_file_can_be_opened(path: str) -> None:
    Path(path).write_bytes(b"x" * 5000)
    refused(path, StateError)
    Path(path).unlink()
    Store(path).close()
