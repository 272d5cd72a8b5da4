//! Sends a list of rows to the server as one parameter: an array of a composite type.
//!
//! One array per column would carry the same values. But the server unnests each array separately, which costs more
//! than writing the rows when a group of commands is written.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{Field, IsNull, Kind, ToSql, Type};

type WriteResult = Result<(), Box<dyn Error + Sync + Send>>;

/// A value that is written as a row of a composite type, field by field in the type's order.
pub(super) trait Composite {
    fn write(&self, row: &mut RowWriter<'_>) -> WriteResult;
}

/// Encodes the fields of one row.
pub(super) struct RowWriter<'a> {
    fields: std::slice::Iter<'a, Field>,
    out: &'a mut BytesMut,
}

impl RowWriter<'_> {
    /// Encodes the next field; fails if the type has no more fields.
    pub(super) fn put(&mut self, value: &(dyn ToSql + Sync)) -> WriteResult {
        let field = self.fields.next().ok_or("the type has too few fields")?;
        self.out.put_u32(field.type_().oid());
        let length_at = self.out.len();
        self.out.put_i32(-1);
        let is_null = value.to_sql_checked(field.type_(), self.out)?;
        if let IsNull::No = is_null {
            let length = i32::try_from(self.out.len() - length_at - 4)?;
            let place = self.out.get_mut(length_at..length_at + 4).unwrap_or_default();
            place.copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}

/// Wrapper with which the driver accepts a [`Composite`] as a parameter.
pub(super) struct AsRow<T>(pub(super) T);

/// `ToSql` requires `Debug`, which the wrapped types do not implement.
impl<T> std::fmt::Debug for AsRow<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a row")
    }
}

impl<T: Composite> ToSql for AsRow<T> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Kind::Composite(fields) = kind.kind() else {
            return Err("not a composite type".into());
        };
        out.put_i32(i32::try_from(fields.len())?);
        let mut row = RowWriter {
            fields: fields.iter(),
            out,
        };
        self.0.write(&mut row)?;
        match row.fields.next() {
            None => Ok(IsNull::No),
            Some(_) => Err("the type has too many fields".into()),
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(kind.kind(), Kind::Composite(_))
    }

    tokio_postgres::types::to_sql_checked!();
}
