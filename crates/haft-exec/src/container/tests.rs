//! Cases that are about containers alone.
