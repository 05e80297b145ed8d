//! Shapes of results: the paths that results of a type have. A shape is known before there is a result.
//!
//! A type names its fields when it is deserialized. Here it is deserialized without input, and the requested fields are recorded.

use super::operand::JsonPath;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use std::collections::BTreeMap;
use unrack_units::nearest::hint;

/// Kind of value at a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ValueShape {
    Number,
    /// A text or a boolean.
    NoNumber,
    Fields(BTreeMap<String, ValueShape>),
    /// A list or map whose elements all have the same shape. If names are given, only these elements exist.
    Each(Box<ValueShape>, Option<Vec<String>>),
    /// Unknown: any value is possible.
    Open,
}

impl ValueShape {
    /// Returns the shape of a type; [`ValueShape::Open`] for a type that cannot be deserialized without input.
    pub(crate) fn from_type<T: DeserializeOwned>() -> ValueShape {
        let mut shape = ValueShape::Open;
        match T::deserialize(Nothing(&mut shape)) {
            Ok(_) => shape,
            Err(_) => ValueShape::Open,
        }
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &str, field: ValueShape) -> ValueShape {
        if let ValueShape::Fields(fields) = &mut self {
            fields.insert(name.into(), field);
        }
        self
    }

    /// Sets the names of the elements of the list `field`.
    pub(crate) fn with_elements(mut self, field: &str, names: Vec<String>) -> ValueShape {
        if let ValueShape::Fields(fields) = &mut self
            && let Some(ValueShape::Each(_, known)) = fields.get_mut(field)
        {
            *known = Some(names);
        }
        self
    }

    /// Returns an error if results have no number at this path.
    pub(crate) fn check(&self, path: &JsonPath) -> Result<(), String> {
        let mut at = self;
        for (n, key) in path.0.iter().enumerate() {
            let place = if n == 0 { "the summary".into() } else { format!("`{}`", path.0[..n].join(".")) };
            at = at.below(key).map_err(|hint| format!("{place} has no `{key}`{hint}"))?;
        }
        match at {
            ValueShape::Number | ValueShape::Open => Ok(()),
            ValueShape::NoNumber => Err(format!("`{path}` is no number")),
            ValueShape::Fields(fields) => {
                let keys: Vec<&str> = fields.keys().map(String::as_str).collect();
                Err(format!("`{path}` is no number, but has {}", keys.join(", ")))
            }
            ValueShape::Each(_, Some(names)) => {
                Err(format!("`{path}` is no number, but has {}", names.join(", ")))
            }
            ValueShape::Each(_, None) => {
                Err(format!("`{path}` is no number, but has several: name one of them"))
            }
        }
    }

    /// Returns the shape of the value at `key`. If there is no such key, the error is a hint at a similar key.
    fn below(&self, key: &str) -> Result<&ValueShape, String> {
        match self {
            ValueShape::Open => Ok(self),
            ValueShape::Number | ValueShape::NoNumber => Err(": it is a single value".into()),
            ValueShape::Fields(fields) => {
                let known: Vec<&str> = fields.keys().map(String::as_str).collect();
                fields.get(key).ok_or_else(|| hint(key, &known))
            }
            ValueShape::Each(_, Some(names)) if !names.iter().any(|name| name == key) && !is_number(key) => {
                let known: Vec<&str> = names.iter().map(String::as_str).collect();
                Err(hint(key, &known))
            }
            ValueShape::Each(one, _) => Ok(one),
        }
    }
}

fn is_number(key: &str) -> bool {
    key.parse::<usize>().is_ok()
}

/// A deserializer without input. It gives each type the values that the type requests, and records the requests as a shape.
struct Nothing<'a>(&'a mut ValueShape);

macro_rules! numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            *self.0 = ValueShape::Number;
            visitor.visit_u64(0)
        })*
    };
}

macro_rules! texts {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            *self.0 = ValueShape::NoNumber;
            visitor.visit_str("")
        })*
    };
}

impl<'de> Deserializer<'de> for Nothing<'_> {
    type Error = Error;

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }
    texts! { deserialize_str deserialize_string deserialize_char }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.0 = ValueShape::Open;
        visitor.visit_unit()
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.0 = ValueShape::NoNumber;
        visitor.visit_bool(false)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(1, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        let mut one = ValueShape::Open;
        let value = visitor.visit_seq(Elements { one: &mut one, left: length })?;
        *self.0 = ValueShape::Each(Box::new(one), None);
        Ok(value)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut entry = ShapeFields { names: &["any"], fields: BTreeMap::new() };
        let value = visitor.visit_map(&mut entry)?;
        let one = entry.fields.into_values().next().unwrap_or(ValueShape::Open);
        *self.0 = ValueShape::Each(Box::new(one), None);
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut entries = ShapeFields { names, fields: BTreeMap::new() };
        let value = visitor.visit_map(&mut entries)?;
        *self.0 = ValueShape::Fields(entries.fields);
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = ValueShape::NoNumber;
        let first: StrDeserializer<Error> = variants.first().copied().unwrap_or_default().into_deserializer();
        visitor.visit_enum(first)
    }

    serde::forward_to_deserialize_any! {
        i128 u128 bytes byte_buf unit unit_struct tuple_struct identifier ignored_any
    }
}

/// Elements of a list, all of the shape `one`.
struct Elements<'a> {
    one: &'a mut ValueShape,
    left: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(Nothing(self.one)).map(Some)
    }
}

/// Names of the fields that have not been deserialized yet, and the shapes of those that have.
struct ShapeFields {
    names: &'static [&'static str],
    fields: BTreeMap<String, ValueShape>,
}

impl<'de> MapAccess<'de> for &mut ShapeFields {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(name) = self.names.first() else { return Ok(None) };
        let name: StrDeserializer<Error> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (name, rest) = self.names.split_first().expect("a key comes before its value");
        self.names = rest;
        let mut shape = ValueShape::Open;
        let value = seed.deserialize(Nothing(&mut shape))?;
        self.fields.insert(name.to_string(), shape);
        Ok(value)
    }
}
