CREATE TABLE IF NOT EXISTS sandboxes (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    name TEXT NOT NULL,
    variant TEXT NOT NULL,
    generation INTEGER NOT NULL,
    instance TEXT NOT NULL,
    status TEXT NOT NULL,
    status_reason TEXT,
    url TEXT,
    image TEXT,
    environment TEXT,
    gpu TEXT,
    created_at TEXT NOT NULL,
    last_activity_at TEXT NOT NULL,
    expires_at TEXT,
    digest TEXT NOT NULL,
    files TEXT
) STRICT;

-- One live sandbox of a name for each owner, whichever gateway launches it. What is attached is attached to one gateway.
CREATE UNIQUE INDEX IF NOT EXISTS live_names
    ON sandboxes (tenant, principal, name, CASE variant WHEN 'jupyter-server' THEN instance ELSE '' END)
    WHERE status IN ('pending', 'starting', 'running', 'terminating');

CREATE INDEX IF NOT EXISTS names ON sandboxes (tenant, principal, name);
