/* Whether a launch is shared, from what launches took.
 *
 * A brief one is, with threads that are awake, if that pays: both ways are tried, and tried again from time to time.
 * It pays where each thread finds its part of the data in its own cache, since the launches before wrote it there by the
 * same division, and does not where the caller wrote all of it, where launches differ, or where processors are lent to
 * others. No estimate tells these apart.
 *
 * What a launch takes on many threads says little of what it takes on one, if each has little to do. So where shared ones
 * are short, two are run alone, of which the second one tells.
 */
#include "launch.h"

#define TRIED 24   /* launches each way */
#define SETTLING 8 /* of them the first, which fill the caches */
#define ANEW_AFTER_ALONE 512
#define ANEW_AFTER_SHARED 4096
#define GAIN 0.9f

#define DOUBTED_BELOW_NS 50000.0
#define DOUBTED_FIRST 8
#define DOUBTED_EACH 2048

static int alone_is_tried(const ok_trial *trial) { return trial->turn < TRIED; }
static int is_tried(const ok_trial *trial) { return trial->turn < 2 * TRIED; }

void ok_trial_ask(const ok_trial *trial, ok_launch *launch) {
    launch->share_brief = is_tried(trial) ? !alone_is_tried(trial) : trial->shared;
    launch->measure |= is_tried(trial) && trial->turn % TRIED >= SETTLING;
    unsigned doubt = trial->doubts % DOUBTED_EACH;
    launch->alone = doubt == DOUBTED_FIRST || doubt == DOUBTED_FIRST + 1;
}

static void note_brief(ok_trial *trial, const ok_launch *launch) {
    int shared = launch->on > 1;
    if (is_tried(trial)) {
        if (shared == alone_is_tried(trial)) return; /* nobody was awake, or it is too short to be shared at all */
        if (trial->turn % TRIED >= SETTLING) trial->took[shared] += (float)(launch->wall / (double)launch->programs);
    }
    trial->turn++;
    if (trial->turn == 2 * TRIED) trial->shared = trial->took[1] < GAIN * trial->took[0];
    if (trial->turn >= (trial->shared ? ANEW_AFTER_SHARED : ANEW_AFTER_ALONE)) *trial = (ok_trial){.doubts = trial->doubts};
}

int ok_trial_note(ok_trial *trial, const ok_launch *launch) {
    int second = trial->doubts % DOUBTED_EACH == DOUBTED_FIRST + 1;
    if (launch->brief && !launch->alone) note_brief(trial, launch);
    if (launch->alone || (!launch->brief && launch->on > 1 && launch->wall < DOUBTED_BELOW_NS)) trial->doubts++;
    return launch->alone && second && launch->on == 1 && launch->wall > 0;
}
