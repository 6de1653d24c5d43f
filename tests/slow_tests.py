"""Which tests take more than some three seconds; `pytest` leaves them out, `pytest -m slow` runs them."""

from __future__ import annotations

SLOW = (
    "benchmarks/",
    "fuzz/test_fuzz_checkpoints.py::test_every_flipped_byte_is_refused_or_harmless",
    "plugins/test_cbr_cache.py::test_no_bit_of_the_file_can_make_it_lie",
    "plugins/test_cbr_cases.py::test_an_import_that_is_killed_is_done_or_not_begun",
    "plugins/test_cbr_doctor.py::test_json_and_exit_code",
    "plugins/test_cbr_doctor.py::test_the_whole_examination_with_its_self_test",
    "plugins/test_cbr_entity_ability.py::test_an_encoder_of_another_author_gets_its_map",
    "plugins/test_cbr_entity_section.py::test_the_objects_of_a_real_run",
    "plugins/test_cbr_explorer_policy.py::test_a_resumed_run_ends_with_the_same_bytes",
    "plugins/test_cbr_goals_run.py::test_unseen_games_take_less_than_half_of_what_chance_takes",
    "plugins/test_cbr_jericho_cache.py::test_approximate_answers_are_compared_with_a_search_now_and_then",
    "plugins/test_cbr_jericho_cache.py::test_equal_states_mean_equal_valid_actions",
    "plugins/test_cbr_jericho_cache.py::test_equal_views_come_often_and_few_actions_are_stale",
    "plugins/test_cbr_jericho_cache.py::test_what_is_seen_does_not_depend_on_the_cache",
    "plugins/test_cbr_jericho_cache.py::test_what_one_run_found_is_known_to_others_but_not_for_other_taggers",
    "plugins/test_cbr_jericho_faults.py::test_a_closed_environment_leaves_nothing_behind",
    "plugins/test_cbr_jericho_transitions.py::test_ways_from_memory_are_those_of_the_engine",
    "plugins/test_cbr_kga2c_supervised.py::test_a_resumed_run_ends_with_the_same_bytes",
    "plugins/test_cbr_kga2c_supervised.py::test_it_learns_to_put_things_in_their_places",
    "plugins/test_cbr_kga2c_supervised.py::test_supervised_decoders_generate_what_is_admissible",
    "plugins/test_cbr_launchers.py::TestRay",
    "plugins/test_cbr_new_plugin.py::test_every_new_plugin_passes_its_own_tests",
    "plugins/test_cbr_new_plugin.py::test_the_parts_work_together_in_a_sweep",
    "plugins/test_cbr_report.py::test_whatever_stands_in_the_results_there_is_a_page",
    "plugins/test_cbr_report_comparable.py::test_the_command_says_it_and_the_page_shows_it",
    "plugins/test_cbr_report_page.py::test_a_run_full_of_nasty_texts_has_a_page_with_our_scripts_alone",
    "plugins/test_cbr_report_sections.py::test_a_section_of_a_loose_file_appears",
    "plugins/test_cbr_report_sections.py::test_a_section_that_cannot_be_imported_is_named",
    "plugins/test_cbr_report_sections.py::test_a_section_that_fails_is_named_and_the_rest_is_written",
    "plugins/test_cbr_sweep_command.py",
    "plugins/test_cbr_twc.py::test_every_published_game_is_played_as_textworld_plays_it",
    "plugins/test_cbr_twc_files.py::test_a_game_of_the_training_that_is_measured_on_is_said_wherever_it_matters",
    "plugins/test_cbr_twc_generate.py::test_every_name_survives_inform_and_names_one_thing",
    "plugins/test_cbr_twc_pool.py::test_a_run_over_a_pool_says_what_it_was_trained_on",
    "plugins/test_cbr_twc_pool.py::test_nearly_all_objects_occur_in_many_houses_and_not_two_thirds",
    "test_agents_train.py::test_cases_alone_train_on_either_benchmark",
    "test_agents_train.py::test_every_agent_trains_jointly_with_the_retriever",
    "test_agents_train.py::test_every_agent_trains_on_either_benchmark",
    "test_agents_train.py::test_the_decoders_of_kga2c_train_with_their_losses",
    "test_console.py::test_a_run_goes_on_when_nobody_reads_it",
    "test_docs.py::test_the_command_and_the_report_section_in_the_readme_work",
    "test_end_to_end.py::test_a_finished_run_can_be_prolonged_with_other_recorders",
    "test_end_to_end.py::test_a_second_interrupt_stops_at_once_and_the_run_is_still_good",
    "test_end_to_end.py::test_a_third_partys_quantizer_and_agent_train_without_a_change_in_the_core",
    "test_end_to_end.py::test_another_seed_gives_another_run",
    "test_end_to_end_jericho.py::test_a_stopped_run_resumes_to_the_same_bytes",
    "test_joint.py::test_an_interrupted_and_resumed_joint_run_equals_the_uninterrupted_one",
    "test_memory_growth.py::test_continuous_keys_fill_the_memory_and_codes_do_not",
    "test_mutation.py::test_a_worker_tells_killed_from_survived_and_puts_the_source_back",
    "test_pretraining.py::test_a_retriever_that_is_made_anew_leaves_nothing_of_the_one_before",
    "test_pretraining.py::test_the_command_pretrains_and_a_recipe_points_to_it",
    "test_resuming.py::test_what_starts_a_run_is_done_once_and_may_be_gone_afterwards",
    "test_thirdparty.py::test_an_outsider_adds_a_command_a_figure_and_a_learner",
    "test_variants_encoders.py::test_every_context_encoder_trains_on_twc",
    "test_variants_encoders.py::test_every_retain_policy_keeps_what_it_is_for",
    "test_variants_encoders.py::test_the_text_based_retriever_trains_on_jericho",
)
"""A folder, a file, a class or a test each."""


def is_slow(node: str) -> bool:
    """Whether the test of this id is listed, or what it is in."""
    name = node.partition("[")[0].removeprefix("tests/")
    return any(f"{name}::".startswith(each if each.endswith("/") else f"{each}::") for each in SLOW)
