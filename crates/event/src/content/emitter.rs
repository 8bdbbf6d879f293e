//! The instructions of a program while it is made, within its limits.

use super::ContentLimits;
use super::error::ContentError;
use super::layout::Layouts;
use super::program::{Constant, MAX_OPERANDS, Op, Program};
use std::ops::Range;

pub(super) struct Emitter {
    limits: ContentLimits,
    pub layouts: Layouts,
    ops: Vec<Op>,
    constants: Vec<Constant>,
    /// The values that the program holds at this point.
    operands: usize,
    /// The members that paths passed so far.
    work: u32,
}

/// The most members that the paths of an expression pass, which bounds the time of compiling.
const MAX_WORK: u32 = 1 << 18;

impl Emitter {
    pub fn new(limits: ContentLimits) -> Emitter {
        let (ops, constants) = (Vec::new(), Vec::new());
        Emitter { limits, layouts: Layouts::default(), ops, constants, operands: 0, work: 0 }
    }

    pub fn finish(self) -> Program {
        let Emitter { limits, layouts, ops, constants, .. } = self;
        Program { ops, constants, layouts, steps: limits.steps }
    }

    /// The index of the next instruction.
    pub fn next(&self) -> usize {
        self.ops.len()
    }

    /// Counts the members that a path passes.
    pub fn count_work(&mut self, members: u32, range: &Range<usize>) -> Result<(), ContentError> {
        self.work = self.work.saturating_add(members);
        if self.work > MAX_WORK {
            let message = format!("the members of the expression lie behind more than {MAX_WORK} others");
            return Err(ContentError::new(range.clone(), message));
        }
        Ok(())
    }

    /// Adds an instruction.
    pub fn emit(&mut self, op: Op, range: &Range<usize>) -> Result<(), ContentError> {
        if self.ops.len() >= self.limits.instructions {
            let message = format!(
                "the expression needs more than {} instructions (ContentLimits::instructions)",
                self.limits.instructions
            );
            return Err(ContentError::new(range.clone(), message));
        }
        match op {
            Op::Load(_) | Op::LoadAt(..) | Op::LoadText { .. } | Op::LoadCount | Op::Constant(_) => {
                self.operands += 1;
            }
            Op::Compute(_) | Op::Compare(_) | Op::StartsWith | Op::Short { .. } => {
                self.operands = self.operands.saturating_sub(1);
            }
            _ => {}
        }
        if self.operands > MAX_OPERANDS {
            let message = format!("the expression holds more than {MAX_OPERANDS} values at a time");
            return Err(ContentError::new(range.clone(), message));
        }
        self.ops.push(op);
        Ok(())
    }

    /// Sets where an earlier instruction goes on.
    pub fn patch(&mut self, at: usize, to: usize) {
        match self.ops.get_mut(at) {
            Some(Op::Element { absent: target, .. } | Op::Case { absent: target, .. }) => *target = to as u32,
            Some(Op::Short { end: target, .. }) => *target = to as u32,
            _ => {}
        }
    }

    /// Removes the instructions from one on, which hold no values.
    pub fn truncate(&mut self, at: usize) {
        self.ops.truncate(at);
    }

    /// Adds a constant.
    pub fn constant(&mut self, constant: Constant, range: &Range<usize>) -> Result<(), ContentError> {
        self.constants.push(constant);
        self.emit(Op::Constant((self.constants.len() - 1) as u32), range)
    }
}
