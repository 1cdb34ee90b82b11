"""A workspace beside a folder that is none of its business."""

from pathlib import Path

import pytest

from tests.toolsets.workspaces import Tools


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a secret, which no file tool may reach."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


@pytest.fixture
def tools(tmp_path: Path, outside: Path) -> Tools:
    """The tools of a small workspace."""
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("def main():\n    return 1\n", encoding="utf-8")
    (root / "README.md").write_text("Read me.\n", encoding="utf-8")
    return Tools(root)
