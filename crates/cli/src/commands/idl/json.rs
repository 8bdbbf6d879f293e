//! An IDL file as JSON: one object a definition, in the order of the file.

use isorb_idl::model::{DefId, DefKind, Direction, Member, Param, Spec};
use serde_json::{Map, Value, json};

/// The definitions of the main file. Types are spelled as in IDL, with full scoped names.
pub fn render(spec: &Spec) -> String {
    let definitions = Json(spec).contents(None);
    format!("{:#}", json!({ "definitions": definitions }))
}

struct Json<'a>(&'a Spec);

impl Json<'_> {
    fn contents(&self, scope: Option<DefId>) -> Vec<Value> {
        let own = self.0.contents(scope).iter().filter(|id| self.0[**id].in_main_file);
        own.map(|id| self.definition(*id)).collect()
    }

    fn definition(&self, id: DefId) -> Value {
        let definition = &self.0[id];
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
        put("name", definition.name.clone().into());
        put("scoped_name", self.0.scoped_name(id).into());
        put("repository_id", definition.repository_id.clone().into());
        if let Some(doc) = &definition.doc {
            put("doc", doc.clone().into());
        }
        let contents = self.contents(Some(id));
        if !contents.is_empty() {
            put("contents", contents.into());
        }
        self.details(&definition.kind, &mut put);
        Value::Object(object)
    }

    fn details(&self, kind: &DefKind, put: &mut dyn FnMut(&str, Value)) {
        let ty = |ty| Value::from(self.0.type_name(ty));
        put("kind", super::kind(kind).into());
        match kind {
            DefKind::Module | DefKind::Native | DefKind::Enumerator(_) => {}
            DefKind::Interface(it) => {
                put("local", it.local.into());
                put("abstract", it.abstract_.into());
                put("bases", self.names(&it.bases));
            }
            DefKind::Value(it) => {
                let bases: Vec<DefId> = it.base.iter().chain(&it.abstract_bases).copied().collect();
                put("custom", it.custom.into());
                put("abstract", it.abstract_.into());
                put("truncatable", it.truncatable.into());
                put("bases", self.names(&bases));
                put("supports", self.names(&it.supports));
                let state = it.members.iter().map(|state| {
                    let mut member = self.member(&state.member);
                    member["public"] = state.public.into();
                    member
                });
                put("members", state.collect());
                let factories = it.factories.iter().map(|factory| {
                    let (parameters, raises) =
                        (self.parameters(&factory.params), self.names(&factory.raises));
                    json!({ "name": factory.name, "parameters": parameters, "raises": raises })
                });
                put("factories", factories.collect());
            }
            DefKind::ValueBox(it) => put("type", ty(&it.boxed)),
            DefKind::Struct(it) => put("members", self.members(&it.members)),
            DefKind::Exception(it) => put("members", self.members(&it.members)),
            DefKind::Union(it) => {
                put("discriminator", ty(&it.discriminator));
                let cases = it.cases.iter().map(|case| {
                    let mut member = self.member(&case.member);
                    member["labels"] = case.labels.iter().map(|label| self.0.value_name(label)).collect();
                    member["default"] = case.is_default.into();
                    member
                });
                put("cases", cases.collect());
            }
            DefKind::Enum(it) => {
                put("enumerators", it.enumerators.iter().map(|id| &*self.0[*id].name).collect());
            }
            DefKind::Typedef(it) => put("type", ty(&it.ty)),
            DefKind::Const(it) => {
                put("type", ty(&it.ty));
                put("value", self.0.value_name(&it.value).into());
            }
            DefKind::Operation(it) => {
                put("oneway", it.oneway.into());
                put("result", ty(&it.result));
                put("parameters", self.parameters(&it.params));
                put("raises", self.names(&it.raises));
                put("context", it.context.iter().cloned().collect());
            }
            DefKind::Attribute(it) => {
                put("readonly", it.readonly.into());
                put("type", ty(&it.ty));
                put("get_raises", self.names(&it.get_raises));
                put("set_raises", self.names(&it.set_raises));
            }
        }
    }

    fn names(&self, ids: &[DefId]) -> Value {
        ids.iter().map(|id| self.0.scoped_name(*id)).collect()
    }

    fn members(&self, members: &[Member]) -> Value {
        members.iter().map(|member| self.member(member)).collect()
    }

    fn member(&self, member: &Member) -> Value {
        let mut object = json!({ "name": member.name, "type": self.0.type_name(&member.ty) });
        if let Some(doc) = &member.doc {
            object["doc"] = doc.clone().into();
        }
        object
    }

    fn parameters(&self, params: &[Param]) -> Value {
        let one = |param: &Param| {
            let direction = match param.direction {
                Direction::In => "in",
                Direction::Out => "out",
                Direction::InOut => "inout",
            };
            json!({ "name": param.name, "direction": direction, "type": self.0.type_name(&param.ty) })
        };
        params.iter().map(one).collect()
    }
}
