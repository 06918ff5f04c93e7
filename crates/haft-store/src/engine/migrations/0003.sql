CREATE TABLE journal (
    id {key},
    changes BIGINT NOT NULL,
    entries BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    looked_ms BIGINT NOT NULL
);
INSERT INTO journal VALUES (1, 0, 0, 0, 0);
CREATE TABLE workspaces (
    id {key},
    path {bytes} NOT NULL UNIQUE
);
CREATE TABLE changes (
    number {key},
    workspace BIGINT NOT NULL,
    call_id TEXT NOT NULL,
    session TEXT NOT NULL,
    tool TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    collected BIGINT NOT NULL
);
CREATE INDEX changes_by_session ON changes (workspace, session, number);
CREATE INDEX changes_by_call ON changes (call_id);
CREATE TABLE entries (
    id {key},
    change BIGINT NOT NULL,
    workspace BIGINT NOT NULL,
    path {bytes} NOT NULL,
    moved_from {bytes},
    before_kind BIGINT NOT NULL,
    before_mode BIGINT NOT NULL,
    before_size BIGINT NOT NULL,
    before_what {bytes},
    after_kind BIGINT NOT NULL,
    after_mode BIGINT NOT NULL,
    after_size BIGINT NOT NULL,
    after_what {bytes},
    undone_by BIGINT
);
CREATE INDEX entries_by_change ON entries (change);
CREATE INDEX entries_by_path ON entries (workspace, path, id);
CREATE INDEX entries_by_content ON entries (before_what) WHERE before_what IS NOT NULL;
CREATE INDEX entries_by_undoing ON entries (undone_by) WHERE undone_by IS NOT NULL;
CREATE TABLE undoings (
    entry BIGINT NOT NULL,
    by_entry BIGINT NOT NULL
);
CREATE INDEX undoings_by_entry ON undoings (by_entry);
CREATE TABLE blobs (
    hash {bytes} PRIMARY KEY,
    size BIGINT NOT NULL,
    packing BIGINT NOT NULL,
    content {bytes} NOT NULL
);
