//! IDL 4 annotations: kept, not interpreted.

use super::Resolver;
use crate::model::{Annotation, AnnotationArg, AnnotationValue};
use crate::syntax::ast::{AnnotationExpr, Expr, ExprKind};

impl Resolver<'_> {
    pub(super) fn annotations(&mut self, annotations: &[AnnotationExpr]) -> Vec<Annotation> {
        let mut out = Vec::new();
        for annotation in annotations {
            let args = annotation.args.iter().filter_map(|(name, value)| {
                let value = self.annotation_value(value)?;
                Some(AnnotationArg { name: name.as_deref().map(str::to_owned), value })
            });
            let args = args.collect();
            out.push(Annotation { name: annotation.name.clone(), args });
        }
        out
    }

    fn annotation_value(&mut self, expr: &Expr) -> Option<AnnotationValue> {
        // Names may be enumerators of the annotation, which are not declared here.
        if let ExprKind::Name(name) = &expr.kind
            && self.peek(name).is_none()
        {
            return Some(AnnotationValue::Name(name.to_string()));
        }
        self.evaluate_any(expr).map(AnnotationValue::Const)
    }
}
