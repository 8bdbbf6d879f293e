//! Scheduling without an ORB: task graphs, priority assignment, schedulability analysis.
#![forbid(unsafe_code)]
