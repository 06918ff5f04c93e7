CREATE TABLE events (
    seq {key},
    at_ms BIGINT NOT NULL,
    kind TEXT NOT NULL,
    session TEXT,
    call_id TEXT,
    subject TEXT,
    body TEXT NOT NULL
);
CREATE TABLE event_head (
    id {key},
    seq BIGINT NOT NULL
);
INSERT INTO event_head VALUES (1, 0);
CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    state TEXT NOT NULL,
    call_id TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    request {bytes} NOT NULL,
    verdict {bytes},
    decided_by TEXT,
    asker TEXT NOT NULL,
    lease_ms BIGINT NOT NULL,
    taken_by TEXT,
    taken_ms BIGINT
);
CREATE INDEX approvals_by_state ON approvals (state, created_ms);
CREATE INDEX approvals_by_time ON approvals (created_ms);
