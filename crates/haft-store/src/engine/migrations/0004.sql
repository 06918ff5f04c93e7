CREATE TABLE output_texts (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    hash TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    lines BIGINT NOT NULL,
    packed BIGINT NOT NULL,
    whole BIGINT NOT NULL,
    kept_ms BIGINT NOT NULL
);
CREATE UNIQUE INDEX output_texts_by_hash ON output_texts (workspace, hash) WHERE whole = 1;
CREATE INDEX output_texts_by_age ON output_texts (workspace, kept_ms, packed);
CREATE TABLE output_pieces (
    text TEXT NOT NULL,
    first_byte BIGINT NOT NULL,
    first_line BIGINT NOT NULL,
    packed {bytes} NOT NULL,
    PRIMARY KEY (text, first_byte)
);
CREATE TABLE outputs (
    id TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    workspace TEXT NOT NULL,
    session TEXT NOT NULL,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    kept_ms BIGINT NOT NULL
);
CREATE INDEX outputs_by_text ON outputs (text);
CREATE TABLE sessions (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    title TEXT,
    parent TEXT,
    surface TEXT NOT NULL,
    client TEXT,
    metadata TEXT NOT NULL,
    archived BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    PRIMARY KEY (workspace, id)
);
CREATE INDEX sessions_by_time ON sessions (workspace, updated_ms);
CREATE TABLE messages (
    workspace TEXT NOT NULL,
    session TEXT NOT NULL,
    seq BIGINT NOT NULL,
    role TEXT NOT NULL,
    author TEXT NOT NULL,
    content TEXT NOT NULL,
    call_id TEXT,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (workspace, session, seq)
);
CREATE TABLE todos (
    workspace TEXT NOT NULL,
    session TEXT NOT NULL,
    version BIGINT NOT NULL,
    items TEXT NOT NULL,
    updated_ms BIGINT NOT NULL,
    PRIMARY KEY (workspace, session)
);
CREATE TABLE leases (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    token TEXT NOT NULL,
    turn BIGINT NOT NULL,
    ttl_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
);
