//! Adapter through which serde reads a tree.

use serde::Deserializer;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::fault::DecodeFault;
use crate::tree::{Entry, Node, Value};

#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub node: &'a Node,
    /// Keys of this table that are read separately.
    pub beside: &'a [&'a str],
}

impl<'a> Reader<'a> {
    fn inside(node: &'a Node) -> Reader<'a> {
        Reader { node, beside: &[] }
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = DecodeFault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFault> {
        match &self.node.value {
            Value::Text(text) => visitor.visit_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(truth) => visitor.visit_bool(*truth),
            Value::Date(_) => Err(DecodeFault::invalid_type(Unexpected::Other("a date"), &visitor)),
            Value::List(nodes) => visitor.visit_seq(Items(nodes.iter())),
            Value::Table(table) => visitor.visit_map(TableEntries { entries: table.iter(), current: None }),
        }
    }

    /// Reads a quantity, such as `10us`, from text. If the scenario has a plain number instead of text, the number is passed on as text, so
    /// that the parser of the quantity either accepts it or reports the missing unit.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFault> {
        match &self.node.value {
            Value::Integer(number) => visitor.visit_str(&number.to_string()),
            Value::Float(number) => visitor.visit_str(&number.to_string()),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &str,
        visitor: V,
    ) -> Result<V::Value, DecodeFault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeFault> {
        let mut keys = self.node.table().into_iter().flatten();
        match keys.find(|(key, _)| !fields.contains(&key.as_str())) {
            Some((key, entry)) => {
                let known = [self.beside, fields].concat();
                Err(DecodeFault::unknown_key(key, &known).inside(key, entry.key))
            }
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeFault> {
        match &self.node.value {
            Value::Text(text) => {
                visitor.visit_enum(IntoDeserializer::<DecodeFault>::into_deserializer(text.as_str()))
            }
            _ => Err(DecodeFault::unknown_word(&self.node.describe(), variants)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'a>(std::slice::Iter<'a, Node>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = DecodeFault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeFault> {
        let Some(node) = self.0.next() else { return Ok(None) };
        seed.deserialize(Reader::inside(node)).map(Some).map_err(|fault| fault.at(node.place))
    }
}

struct TableEntries<'a> {
    entries: std::collections::btree_map::Iter<'a, String, Entry>,
    current: Option<(&'a String, &'a Entry)>,
}

impl<'de> MapAccess<'de> for TableEntries<'_> {
    type Error = DecodeFault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeFault> {
        self.current = self.entries.next();
        let Some((key, entry)) = self.current else { return Ok(None) };
        let name = StrDeserializer::<DecodeFault>::new(key);
        seed.deserialize(name).map(Some).map_err(|fault| fault.inside(key, entry.key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeFault> {
        let (key, entry) = self.current.take().expect("a value is asked for after its key");
        seed.deserialize(Reader::inside(&entry.node)).map_err(|fault| fault.inside(key, entry.node.place))
    }
}
