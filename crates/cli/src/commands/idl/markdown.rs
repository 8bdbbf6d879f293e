//! An IDL file as a page: a heading a definition, a table of its parts, its comment as text.

use isorb_idl::model::{DefId, DefKind, Direction, Member, Operation, Param, Spec};
use std::fmt::Write;

/// The definitions of the main file as Markdown.
pub fn render(spec: &Spec) -> String {
    let mut page = Page { spec, text: String::new() };
    page.contents(None);
    page.text.trim_end().to_owned() + "\n"
}

struct Page<'a> {
    spec: &'a Spec,
    text: String,
}

/// Text in a cell: one line, in which nothing ends the cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn code(text: &str) -> String {
    format!("`{}`", cell(text))
}

impl Page<'_> {
    fn line(&mut self, text: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{text}");
    }

    fn contents(&mut self, scope: Option<DefId>) {
        let spec = self.spec;
        let own = |id: &&DefId| spec[**id].in_main_file;
        spec.contents(scope).iter().filter(own).for_each(|id| self.definition(*id));
    }

    fn definition(&mut self, id: DefId) {
        let spec = self.spec;
        let definition = &spec[id];
        if matches!(definition.kind, DefKind::Operation(_) | DefKind::Attribute(_)) {
            return;
        }
        let depth = spec.path(id).len().min(5);
        let (kind, name) = (super::kind(&definition.kind), spec.scoped_name(id));
        self.line(&format!("{} {kind} `{name}`\n", "#".repeat(depth + 1)));
        if let Some(doc) = &definition.doc {
            self.line(&format!("{}\n", doc.trim()));
        }
        self.line(&format!("`{}`\n", definition.repository_id));
        match &definition.kind {
            DefKind::Interface(it) => self.names("Derives from", &it.bases),
            DefKind::Value(it) => {
                self.names(
                    "Derives from",
                    &it.base.iter().chain(&it.abstract_bases).copied().collect::<Vec<_>>(),
                );
                self.names("Supports", &it.supports);
                let state = it.members.iter().map(|state| &state.member);
                self.members("member", state.map(|member| (String::new(), member)));
            }
            DefKind::ValueBox(it) => self.line(&format!("Boxes {}.\n", self.ty(&it.boxed))),
            DefKind::Struct(it) => self.members("member", it.members.iter().map(|m| (String::new(), m))),
            DefKind::Exception(it) => self.members("member", it.members.iter().map(|m| (String::new(), m))),
            DefKind::Union(it) => {
                self.line(&format!("Switches on {}.\n", self.ty(&it.discriminator)));
                let cases = it.cases.iter().map(|case| {
                    let labels = case.labels.iter().map(|label| code(&spec.value_name(label)));
                    let labels: Vec<_> = labels.chain(case.is_default.then(|| "default".into())).collect();
                    (labels.join(", "), &case.member)
                });
                self.members("case", cases);
            }
            DefKind::Enum(it) => {
                self.table("| value | name | |");
                for (value, id) in it.enumerators.iter().enumerate() {
                    let doc = cell(spec[*id].doc.as_deref().unwrap_or_default());
                    self.line(&format!("| {value} | {} | {doc} |", code(&spec[*id].name)));
                }
                self.line("");
            }
            DefKind::Typedef(it) => self.line(&format!("Is {}.\n", self.ty(&it.ty))),
            DefKind::Const(it) => {
                self.line(&format!("{}, a {}.\n", code(&spec.value_name(&it.value)), self.ty(&it.ty)));
            }
            _ => {}
        }
        self.operations(id);
        self.contents(Some(id));
    }

    fn ty(&self, ty: &isorb_idl::model::Type) -> String {
        code(self.spec.type_name(ty).trim_start_matches("::"))
    }

    fn table(&mut self, head: &str) {
        self.line(head);
        let columns = head.matches('|').count() - 1;
        self.line(&format!("|{}", "---|".repeat(columns)));
    }

    fn names(&mut self, what: &str, ids: &[DefId]) {
        if !ids.is_empty() {
            let names: Vec<_> = ids.iter().map(|id| code(&self.spec.scoped_name(*id))).collect();
            self.line(&format!("{what} {}.\n", names.join(", ")));
        }
    }

    fn members<'m>(&mut self, what: &str, members: impl Iterator<Item = (String, &'m Member)>) {
        let mut members = members.peekable();
        if members.peek().is_none() {
            return;
        }
        let labels = what == "case";
        self.table(if labels { "| label | member | type | |" } else { "| member | type | |" });
        for (label, member) in members {
            let label = if labels { format!("| {label} ") } else { String::new() };
            let doc = cell(member.doc.as_deref().unwrap_or_default());
            let ty = self.ty(&member.ty);
            self.line(&format!("{label}| {} | {ty} | {doc} |", code(&member.name)));
        }
        self.line("");
    }

    /// Operations and attributes of an interface or value.
    fn operations(&mut self, id: DefId) {
        let spec = self.spec;
        let rows: Vec<String> = spec[id].contents.iter().filter_map(|id| self.row(*id)).collect();
        if !rows.is_empty() {
            self.table("| operation | raises | |");
            rows.iter().for_each(|row| self.line(row));
            self.line("");
        }
    }

    fn row(&self, id: DefId) -> Option<String> {
        let definition = &self.spec[id];
        let (text, raises) = match &definition.kind {
            DefKind::Operation(it) => (self.signature(&definition.name, it), it.raises.clone()),
            DefKind::Attribute(it) => {
                let readonly = if it.readonly { "readonly " } else { "" };
                let ty = self.spec.type_name(&it.ty);
                let text = format!("{readonly}attribute {} {}", ty.trim_start_matches("::"), definition.name);
                (text, it.get_raises.iter().chain(&it.set_raises).copied().collect())
            }
            _ => return None,
        };
        let raises: Vec<_> = raises.iter().map(|id| code(&self.spec.scoped_name(*id))).collect();
        let doc = cell(definition.doc.as_deref().unwrap_or_default());
        Some(format!("| {} | {} | {doc} |", code(&text), raises.join(", ")))
    }

    fn signature(&self, name: &str, it: &Operation) -> String {
        let one = |param: &Param| {
            let direction = match param.direction {
                Direction::In => "in",
                Direction::Out => "out",
                Direction::InOut => "inout",
            };
            format!("{direction} {} {}", self.spec.type_name(&param.ty).trim_start_matches("::"), param.name)
        };
        let params: Vec<_> = it.params.iter().map(one).collect();
        let oneway = if it.oneway { "oneway " } else { "" };
        let result = self.spec.type_name(&it.result);
        format!("{oneway}{} {name}({})", result.trim_start_matches("::"), params.join(", "))
    }
}
