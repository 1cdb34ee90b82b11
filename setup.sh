# Sourced by ./demo and ./check: brings the locked dependencies into .venv, with nothing but Python 3.11 and pip.
# Everything stays in this folder; a second run finds it all there and takes a moment.
cd "$(dirname "${BASH_SOURCE[0]}")"
uv_version=0.13.9
python=$(python3 -c 'import sys; print(sys.executable if sys.version_info >= (3, 11) else "")')
if [ -z "$python" ]; then
    echo "Longshift needs Python 3.11 or newer as python3; this one is older." >&2
    exit 2
fi
if ! PYTHONPATH=.uv "$python" -c "import importlib.metadata as m; assert m.version('uv') == '$uv_version'" 2>/dev/null; then
    rm -rf .uv
    "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-warn-script-location \
        --target .uv "uv==$uv_version"
fi
export UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1
.uv/bin/uv sync --locked --quiet --inexact --python "$python" "$@"
# Where Python is told to write no bytecode, every process would compile our modules anew.
.venv/bin/python -m compileall -q longshift store endpoints toolsets activities workflows worker client lab examples
