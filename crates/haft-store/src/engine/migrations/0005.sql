CREATE INDEX output_texts_unfinished ON output_texts (workspace, kept_ms) WHERE whole = 0;
ALTER TABLE output_pieces ADD COLUMN packing BIGINT NOT NULL DEFAULT 2;
