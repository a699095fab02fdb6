-- What the owner last wished: 'running', or the status that it is to end with, and why. Written by whoever wishes it, read by
-- the gateway that looks after the sandbox.
ALTER TABLE sandboxes ADD COLUMN wish TEXT NOT NULL DEFAULT 'running';
ALTER TABLE sandboxes ADD COLUMN wish_reason TEXT;
-- By what its provider finds it again.
ALTER TABLE sandboxes ADD COLUMN backend TEXT;
ALTER TABLE sandboxes ADD COLUMN idle_seconds INTEGER;
-- The master key that its token and its digest are derived from; '' is the one that the first version made.
ALTER TABLE sandboxes ADD COLUMN key_id TEXT NOT NULL DEFAULT '';
-- 1 where its files end with it: as its owner was told at the launch.
ALTER TABLE sandboxes ADD COLUMN ephemeral INTEGER NOT NULL DEFAULT 0;
-- A caller's secret, sealed.
ALTER TABLE sandboxes ADD COLUMN secret BLOB;
UPDATE sandboxes SET wish = 'terminated', wish_reason = status_reason WHERE status = 'terminating';

CREATE INDEX live ON sandboxes (instance) WHERE status IN ('pending', 'starting', 'running', 'terminating');

-- The pointers of workspaces: active sandbox, open notebooks, current notebook.
CREATE TABLE workspaces (
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    used_at TEXT NOT NULL,
    PRIMARY KEY (tenant, principal, name)
) STRICT, WITHOUT ROWID;

-- MCP sessions, so that a client goes on with its own after a restart, and nobody with another's.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    state TEXT,
    used_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The ids that cells go by where their notebook stores none (before nbformat 4.5).
CREATE TABLE cell_ids (
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    path TEXT NOT NULL,
    ids TEXT NOT NULL,
    used_at TEXT NOT NULL,
    PRIMARY KEY (tenant, principal, sandbox, path)
) STRICT, WITHOUT ROWID;
