//! haft over the Model Context Protocol.
