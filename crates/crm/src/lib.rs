//! Reflective memory: a writer's memory appears in its readers' memories, on this node and on others.
#![forbid(unsafe_code)]
