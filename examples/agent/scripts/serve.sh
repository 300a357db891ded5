# Starts the server in the environment of the project's tests; a client runs it as `sh serve.sh`.
cd "${CLAUDE_PROJECT_DIR:-.}" || exit 1
for python in .venv/bin/python venv/bin/python; do
    [ -x "$python" ] && exec "$python" -m pytest --cideldill-mcp
done
exec python3 -m pytest --cideldill-mcp
