ALTER TABLE blobs ADD COLUMN base {bytes};
CREATE INDEX blobs_by_base ON blobs (base) WHERE base IS NOT NULL;
