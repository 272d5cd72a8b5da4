//! A paddock. Stored and returned in the same form, so that a deleted one can be restored from the result.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

use crate::tool::Fault;

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Paddock {
    pub id: i64,
    pub nombre: String,
    pub hectareas: i64,
    pub pasto: String,
    pub animales: i64,
    pub notas: Option<String>,
}

const COLUMNS: &str = "id, nombre, hectareas, pasto, animales, notas";

/// Returns all paddocks, by id.
pub fn all(data: &Connection) -> Result<Vec<Paddock>, Fault> {
    let mut statement = data.prepare(&format!("SELECT {COLUMNS} FROM potrero ORDER BY id"))?;
    let rows = statement.query_map([], Paddock::read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the paddock with this id.
pub fn by_id(data: &Connection, id: i64) -> Result<Paddock, Fault> {
    let sql = format!("SELECT {COLUMNS} FROM potrero WHERE id = ?");
    let found = data.query_row(&sql, [id], Paddock::read).optional()?;
    found.ok_or_else(|| Fault::said(format!("no hay un potrero {id}; no se cambió nada")))
}

impl Paddock {
    fn read(row: &Row<'_>) -> rusqlite::Result<Paddock> {
        Ok(Paddock {
            id: row.get(0)?,
            nombre: row.get(1)?,
            hectareas: row.get(2)?,
            pasto: row.get(3)?,
            animales: row.get(4)?,
            notas: row.get(5)?,
        })
    }

    /// Inserts the paddock with its own id. Fails if its id or name is in use.
    pub fn insert(&self, data: &Connection) -> Result<(), Fault> {
        let sql = "SELECT nombre FROM potrero WHERE id = ? OR nombre = ?";
        let there: Option<String> = data
            .query_row(sql, params![self.id, self.nombre], |row| row.get(0))
            .optional()?;
        if let Some(there) = there {
            return Err(Fault::said(format!(
                "ya está el potrero {there}; no se cambió nada"
            )));
        }
        let sql = format!("INSERT INTO potrero ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)");
        let values = params![
            self.id,
            self.nombre,
            self.hectareas,
            self.pasto,
            self.animales,
            self.notas
        ];
        data.execute(&sql, values)?;
        Ok(())
    }
}
