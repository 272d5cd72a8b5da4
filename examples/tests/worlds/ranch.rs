use countersign_examples::ranch::SETUP;
use serde_json::{Value, json};

use crate::stage::{each, reason, result, summary};

const SAID: &str = "Borrar 13 potreros: Padrón 1401, Padrón 1402, Padrón 1403, Padrón 1404, Padrón 1405, Padrón 1406, \
                    Padrón 1407, Padrón 1408, Padrón 1409, Padrón 1410, Padrón 1411, Padrón 1412, Padrón 1413";

/// Builds the arguments that an agent makes from a search result.
fn arguments(found: &Value) -> String {
    let paddocks = found["potreros"].as_array().unwrap();
    let ids: Vec<&Value> = paddocks.iter().map(|paddock| &paddock["id"]).collect();
    let names: Vec<&Value> = paddocks.iter().map(|paddock| &paddock["nombre"]).collect();
    json!({ "ids": ids, "nombres": names, "confirm": true }).to_string()
}

#[tokio::test]
async fn b10_thirteen_paddocks_go_in_one_call_with_thirteen_exact_ids() {
    each(&SETUP, async |stage| {
        let found = stage
            .read("carpeta/search-potreros", r#"{"prefijo":"padron"}"#)
            .await;
        assert_eq!(found["total"], 13, "`Antiguo Padrón` does not begin with it");
        let held = stage.hold("carpeta/delete-potreros", &arguments(&found)).await;
        assert_eq!(held.calls.len(), 1);
        assert_eq!(held.calls[0].arguments.as_bytes(), arguments(&found).as_bytes());
        assert_eq!(summary(&held), SAID);
        assert!(
            !summary(&held).contains("102"),
            "b6: ids stay out of what is shown"
        );
        assert_eq!(held.calls[0].terms.yes.as_deref(), Some("Sí, borrar"));

        let done = stage.approve(&held).await;
        assert_eq!(result(&done)["borrados"], 13);
        let left = stage.read("carpeta/list-potreros", "{}").await;
        let left: Vec<&Value> = left["potreros"]
            .as_array()
            .unwrap()
            .iter()
            .map(|paddock| &paddock["nombre"])
            .collect();
        let expected = [
            "La Laguna",
            "El Bajo",
            "Monte Chico",
            "Tajamar",
            "Loma Norte",
            "Antiguo Padrón",
            "Las Piedras",
        ];
        assert_eq!(left, expected);
    })
    .await;
}

#[tokio::test]
async fn b10_a17_the_thirteen_come_back_exactly() {
    each(&SETUP, async |stage| {
        let found = stage
            .read("carpeta/search-potreros", r#"{"prefijo":"Padrón"}"#)
            .await;
        let restored = SAID.replace("Borrar", "Restaurar");
        stage
            .there_and_back("carpeta/delete-potreros", &arguments(&found), SAID, &restored)
            .await;
        let one = r#"{"ids":[105]}"#;
        let said = "Borrar 1 potrero: los de id 105";
        stage
            .there_and_back(
                "carpeta/delete-potreros",
                one,
                said,
                "Restaurar 1 potrero: El Bajo",
            )
            .await;
    })
    .await;
}

#[tokio::test]
async fn an_undo_can_itself_be_undone() {
    each(&SETUP, async |stage| {
        let deleted = stage.run("carpeta/delete-potreros", r#"{"ids":[101,105]}"#).await;
        let after = stage.hash();
        let undo = stage.undo(&deleted).await.unwrap();
        let restored = stage.approve(&undo).await;
        let redo = stage.undo(&restored).await.unwrap();
        assert_eq!(summary(&redo), "Borrar 2 potreros: La Laguna, El Bajo");
        result(&stage.approve(&redo).await);
        assert_eq!(stage.hash(), after);
    })
    .await;
}

#[tokio::test]
async fn all_or_none_go_and_only_those_that_were_shown() {
    each(&SETUP, async |stage| {
        let before = stage.hash();
        let cases = [
            (r#"{"ids":[102,999]}"#, "no hay un potrero 999; no se cambió nada"),
            (
                r#"{"ids":[101],"nombres":["Padrón 1401"]}"#,
                "los nombres mostrados no son los de esos potreros; no se borró ninguno",
            ),
            (
                r#"{"ids":[102,103],"nombres":["Padrón 1401"]}"#,
                "los nombres mostrados no son los de esos potreros; no se borró ninguno",
            ),
        ];
        for (arguments, expected) in cases {
            assert_eq!(
                reason(&stage.run("carpeta/delete-potreros", arguments).await),
                expected
            );
        }
        assert_eq!(stage.hash(), before);
        for broken in [
            r#"{"ids":[]}"#,
            r#"{"ids":[102,102]}"#,
            r#"{"ids":["102"]}"#,
            r#"{"nombres":["El Bajo"]}"#,
        ] {
            stage.forbidden("carpeta/delete-potreros", broken).await;
        }
        let one = stage.read("carpeta/get-potrero", r#"{"id":119}"#).await;
        assert_eq!(one["nombre"], "Antiguo Padrón");
    })
    .await;
}
