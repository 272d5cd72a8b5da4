-- Un identificador no se usa dos veces: una tarjeta sobre el potrero 104 no puede pasar a hablar de otro.
CREATE TABLE potrero (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    nombre TEXT NOT NULL UNIQUE,
    hectareas INTEGER NOT NULL CHECK (hectareas > 0),
    pasto TEXT NOT NULL,
    animales INTEGER NOT NULL CHECK (animales >= 0),
    notas TEXT
) STRICT;
