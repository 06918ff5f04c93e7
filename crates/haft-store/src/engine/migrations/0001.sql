CREATE TABLE ledger (
    seq {key},
    call_id TEXT NOT NULL,
    session TEXT NOT NULL,
    tool TEXT NOT NULL,
    began_ms BIGINT NOT NULL,
    action TEXT,
    error TEXT,
    entry TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX ledger_by_session ON ledger (session, seq);
CREATE INDEX ledger_by_tool ON ledger (tool, seq);
CREATE INDEX ledger_by_call ON ledger (call_id);
CREATE TABLE chain (
    id {key},
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO chain VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');
CREATE TABLE rules (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    rule TEXT NOT NULL,
    scope TEXT NOT NULL,
    session TEXT NOT NULL,
    made_by TEXT NOT NULL,
    saved_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    seal TEXT NOT NULL
);
