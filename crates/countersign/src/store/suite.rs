//! Conformance suite that every store has to pass. It tests only behaviour that all stores share.
//!
//! A store's author writes `async fn fixture() -> Fixture` and `countersign::conformance!(fixture);`, which generates
//! one test per case. [`program`] runs the same random programs on several stores, [`race`] runs concurrent tasks
//! against each other, [`resend`] duplicates and reorders requests, and [`failing`] injects faults into a store.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests, compiled as a library so that other crates can run them"
)]

pub mod cases;
pub mod failing;
mod fixture;
pub mod program;
pub mod race;
pub mod resend;
pub mod sample;

pub use fixture::{Fixture, Reopen};

/// Passes the names of all cases to a macro; the only list of them.
#[macro_export]
#[doc(hidden)]
macro_rules! for_each_store_case {
    ($callback:path, $fixture:path) => {
        $callback! { $fixture;
            // Propose.
            b1_an_approval_comes_back_as_it_was_proposed,
            a18_where_values_came_from_comes_back,
            a4_new_proposal_replaces_the_pending_one_atomically,
            a4_an_expired_one_is_not_replaced_but_expires,
            x20_tenants_with_the_same_channel_and_key_do_not_meet,
            x40_propose_retry_gives_one_card,
            x40_a_proposal_without_calls_only_looks_for_the_earlier_one,
            x40_same_key_for_another_proposal_is_refused,
            x40_keys_belong_to_one_agent,
            a_repeated_id_never_overwrites,
            a16_an_approval_holds_one_to_a_hundred_calls,
            i7_bytes_come_back_identical,
            i7_the_largest_arguments_and_results_come_back,
            names_may_be_in_any_language,
            // Passes.
            x58_a_passed_call_is_recorded_as_started_and_ends_once,
            x58_nobody_decides_or_withdraws_a_passed_call,
            x58_a_passed_call_that_never_ends_is_unknown,
            x58_a_key_records_a_passed_call_once,
            x58_many_send_a_passed_call_under_one_key_and_one_runs_it,
            x58_a_passed_call_leaves_the_question_of_its_channel_alone,
            x58_lists_tell_passed_calls_apart,
            x58_a_passed_call_is_erased_like_any_other,
            x58_a_record_of_several_passed_calls_is_refused,
            x58_passed_calls_survive_a_restart,
            // Owners of channels.
            x70_a_channel_belongs_to_the_agent_that_opened_it,
            x70_a_channel_keeps_its_agent_over_a_restart,
            x70_a_channel_that_is_not_used_becomes_free,
            x70_a_pending_card_of_before_there_were_owners_stays,
            x70_a_shared_channel_is_nobodys,
            x70_what_a_person_proposes_through_the_service_takes_no_channel,
            x70_two_agents_that_open_a_channel_at_once_do_not_both_get_it,
            x70_evidence_is_kept_for_each_who_tries,
            // Restraint.
            x11_the_same_calls_join_the_open_card,
            i3_the_same_calls_in_another_folder_are_another_card,
            x11_an_agent_has_only_so_many_pending,
            x11_who_takes_a_place_does_not_count_twice,
            x11_a_denied_call_cools_down,
            x62_a_limit_counts_what_one_requester_asks,
            x99_a_denied_call_is_refused_in_whatever_company,
            x99_what_was_left_out_of_a_batch_counts_as_denied,
            x99_a_denied_batch_is_refused_in_any_order,
            x99_what_an_earlier_approver_left_out_counts_as_denied,
            // Decide and withdraw.
            a5_expired_is_invisible_and_cannot_be_approved,
            x10_the_last_microsecond_is_in_time_and_the_next_is_late,
            x03_decision_on_another_digest_is_stale,
            x03_the_old_card_does_not_decide_its_replacement,
            x13_same_key_same_answer_other_body_refused,
            x13_somebody_elses_key_is_no_answer,
            x04_nobody_outside_the_list_decides,
            x01_an_attempt_is_kept_and_decides_nothing,
            x46_a_role_taken_away_meanwhile_decides_nothing,
            x67_an_endorsement_counts_while_its_account_is_as_it_was,
            x04_who_may_not_decide_learns_nothing_else,
            x04_approving_needs_every_call_and_denying_one,
            b7_each_refusal_is_distinct,
            a16_partial_batch,
            a16_choices_must_fit_the_calls,
            a16_each_denied_is_denied,
            x44_an_edit_is_a_second_revision,
            x44_an_edit_nobody_ruled_on_writes_nothing,
            x38_refused_decisions_are_kept_up_to_sixteen,
            an_agent_withdraws_only_its_own,
            a_person_withdraws_by_going_on,
            b8_the_history_tells_everything_in_order,
            x47_time_never_goes_back_within_an_approval,
            // Authority.
            x34_who_asked_cannot_approve,
            x34_who_asked_may_deny,
            x34_without_four_eyes_who_asked_may_approve,
            x34_four_eyes_count_for_the_calls_that_are_approved,
            x44_under_four_eyes_nobody_edits_alone,
            h08_a_weaker_surface_cannot_approve,
            quorum_takes_as_many_people_as_it_says,
            quorum_counts_a_person_once,
            quorum_ends_with_the_first_no,
            quorum_runs_what_all_approved,
            quorum_is_bound_to_the_card_and_the_rules,
            quorum_survives_a_restart,
            x49_a_denial_counts_from_anywhere,
            x04_who_is_not_listed_learns_nothing_of_four_eyes,
            // Start, finish, reconcile.
            a8_decision_is_consumed_before_the_run,
            a8_who_decides_and_goes_away_leaves_nothing_half_done,
            a8_a_call_starts_once,
            a8_a_repeated_decision_starts_nothing,
            what_was_not_approved_never_starts,
            a16_calls_run_in_proposed_order,
            a16_a_failure_stops_the_batch,
            a16_a_batch_may_go_on_after_a_failure,
            a16_finishing_starts_the_next,
            x37_only_the_permit_finishes_a_call,
            f13_finishing_again_gives_the_same_answer,
            x12_lost_run_is_unknown_and_never_starts_again,
            x12_an_executor_that_cannot_tell_leaves_its_words_out_of_events,
            x84_a_call_that_was_not_sent_is_on_record_as_such,
            x37_late_finish_is_reconciled_and_starts_nothing,
            x87_a_late_answer_is_appended_behind_a_persons_word,
            x12_a_person_reconciles,
            a_stale_release_is_refused,
            a_batch_has_as_long_again_after_each_call,
            a15_sealed_is_erased_at_every_end,
            // Orders, and repeated starts.
            e8_calls_in_any_order_start_side_by_side,
            e8_a_decision_starts_no_call_of_any_order,
            e8_the_order_is_part_of_what_is_approved,
            e8_calls_in_any_order_become_stale_when_none_runs,
            e8_calls_in_any_order_are_lost_each_by_itself,
            e8_a_repeated_start_gives_the_permit_again,
            e8_a_start_is_not_repeated_after_the_deadline,
            // Snapshots.
            x22_a_call_over_a_snapshot_starts_only_after_a_look,
            x22_what_has_changed_does_not_run_and_is_asked_again,
            x22_what_cannot_be_read_again_does_not_run,
            x22_a_conversation_that_went_on_keeps_its_question,
            x22_a_batch_stops_behind_what_has_changed_or_goes_on,
            x22_of_two_starts_that_saw_different_things_one_counts,
            x22_an_erased_snapshot_is_gone_and_the_history_still_verifies,
            // Undo.
            a17_undo_marks_undone_and_cannot_run_twice,
            a17_two_undos_of_one_call_do_not_both_run,
            a17_a_batch_is_undone_by_one_approval_each_call_by_its_own,
            a17_a_failed_undo_can_be_tried_again,
            a17_a_lost_undo_holds_its_claim_until_reconciled,
            a17_only_what_succeeded_can_be_undone,
            // The sweep.
            d7_sweep_counts_what_it_did,
            d7_sweep_keeps_its_limit,
            d7_sweep_ends_the_longest_due_first,
            // Retention and restore.
            h21_erasing_leaves_what_happened_and_nothing_that_was_said,
            h21_what_is_open_or_young_is_not_erased,
            h21_an_edited_approval_still_verifies_when_erased,
            h21_a_purge_goes_through_what_is_old,
            x83_after_an_erasure_nothing_left_confirms_a_guess,
            x83_after_an_erasure_nothing_tells_how_long_a_result_was,
            x83_an_erased_keys_retry_gets_no_answer,
            x33_after_a_restore_nothing_that_was_open_goes_on,
            x33_voiding_goes_on_until_nothing_is_left,
            x92_only_what_a_wrong_clock_changed_is_voided,
            // The log of all events.
            i16_the_log_has_every_event_once_and_its_head_is_the_root_over_them,
            i16_the_log_goes_on_after_erasing_and_voiding,
            i16_the_log_survives_a_restart,
            i16_a_prefix_of_the_log_is_known_again,
            x63_whatever_happened_an_honest_store_is_sound,
            // Reads.
            d1_pending_is_listed_oldest_first_and_never_expired,
            d1_everything_else_is_listed_newest_first,
            d1_filters_meet,
            d2_what_was_approved_and_nobody_runs_is_found,
            x89_what_goes_on_behind_a_call_that_is_over_is_found,
            x92_everything_pending_is_counted,
            d1_pages_have_no_gaps_and_no_repeats,
            d1_a_page_has_its_limits,
            x62_a_page_ends_when_it_has_its_bytes,
            b8_the_feed_is_complete_and_in_order,
            b8_the_feed_goes_on_behind_a_cursor,
            b8_behind_the_end_of_the_feed_comes_only_what_is_new,
            x20_other_tenants_see_nothing,
            x20_other_tenants_can_do_nothing,
            the_store_lives_by_its_clock,
            i3_the_clock_is_read_behind_the_lock,
            x92_a_clock_in_doubt_refuses_and_ends_nothing,
            // The registry.
            h02_a_stamp_stays_while_nothing_changes_and_changes_with_everything,
            h02_an_entry_comes_back_as_it_was_put,
            h02_what_is_no_entry_is_not_kept,
            h02_an_entry_changes_by_compare_and_swap,
            h02_an_entry_ends_by_the_clock,
            h02_the_sweep_removes_what_is_over,
            h02_an_entry_is_taken_once,
            h02_many_take_and_one_has_it,
            h02_many_put_and_one_is_kept,
            x20_entries_are_listed_by_tenant,
            h02_a_page_of_entries_has_its_limit,
            a10_turns_of_a_session_come_back_in_order_and_each_number_is_taken_once,
            // Waiting.
            d2_waiters_are_woken_by_every_change,
            d2_a_change_of_nothing_wakes_nobody,
            d2_who_follows_hears_of_every_commit,
            // Conversations.
            b10_thirteen_paddocks_are_deleted_by_typing_the_label,
            a6_a_restart_between_the_card_and_the_yes_changes_nothing,
            x13_a_message_that_comes_to_two_nodes_counts_once,
            x03_a_yes_to_the_replaced_card_decides_nothing,
            a7_no_and_other_messages_end_the_question,
            a5_an_expired_question_hears_nothing,
            // Restart.
            a6_everything_survives_a_restart,
            x32_what_waits_goes_on_after_a_restart,
        }
    };
}

#[macro_export]
#[doc(hidden)]
macro_rules! store_case_tests {
    ($fixture:path; $($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::store::suite::cases::$case($fixture().await).await;
            }
        )*
    };
}

/// Generates one test per case, each with a fresh fixture: `conformance!(fixture);` with `async fn fixture() ->
/// Fixture`.
#[macro_export]
macro_rules! conformance {
    ($fixture:path) => {
        $crate::for_each_store_case! { $crate::store_case_tests, $fixture }
    };
}

#[cfg(test)]
mod tests;
