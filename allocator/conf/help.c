#include "allocator/conf/conf.h"
#include "allocator/conf/value.h"

/* The rows in order, with the group titles between them. */
struct row {
    const char *title; /* Or NULL: a setting. */
    enum wp_setting_id id;
};

static const struct row rows[] = {
#define WP_GROUP(text) {text, WP_SETTINGS},
#define WP_SETTING(type, name, ...) {NULL, WP_SET_##name},
#include "allocator/conf/settings.def"
#undef WP_SETTING
#undef WP_GROUP
};

static const char *
type_hint(const struct wp_setting *s)
{
    switch (s->type) {
    case WP_SETTING_BOOL:
        return "true|false";
    case WP_SETTING_ENUM:
        return s->choices;
    case WP_SETTING_DURATION:
        return "DURATION";
    case WP_SETTING_SIZE:
        return "SIZE";
    case WP_SETTING_INT:
        return "N";
    case WP_SETTING_LIST:
        return "A,B,...";
    case WP_SETTING_STRING:
    case WP_SETTING_SECRET:
    default:
        return "TEXT";
    }
}

/* Words of text in lines of at most 78 columns, after an indent. */
static void
print_wrapped(FILE *out, const char *text, int indent)
{
    int column = 0;

    while (*text != '\0') {
        int word = (int)strcspn(text, " ");

        if (column == 0 || column + 1 + word > 78) {
            (void)fprintf(out, "%s%*s", column == 0 ? "" : "\n", indent, "");
            column = indent;
        } else {
            (void)fputc(' ', out);
            column++;
        }
        (void)fprintf(out, "%.*s", word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    (void)fputc('\n', out);
}

static void
print_flag_name(FILE *out, const char *name)
{
    for (; *name != '\0'; name++) {
        (void)fputc(*name == '_' ? '-' : *name, out);
    }
}

static void
print_flag(FILE *out, const struct wp_setting *s)
{
    (void)fputs("  --", out);
    print_flag_name(out, s->name);
    (void)fprintf(out, "=%s", type_hint(s));
    if (s->default_text[0] != '\0') {
        (void)fprintf(out, "   [%s]", s->default_text);
    }
    (void)fputc('\n', out);
    print_wrapped(out, s->help, 6);
}

void
wp_conf_help(FILE *out)
{
    (void)fputs(
        "warmpoold keeps sandboxes warm and leases a ready one to each claim.\n"
        "\n"
        "usage: warmpoold [--config=FILE] [--manifests=FILE,...] [settings]\n"
        "\n"
        "Try it:\n"
        "  warmpoold --manifests=deploy/examples/quickstart.yaml\n"
        "  warmpoolctl pools\n"
        "  warmpoolctl claim quickstart\n"
        "\n"
        "Every setting below can be a flag (--log-level=debug), an "
        "environment\n"
        "variable (WARMPOOL_LOG_LEVEL=debug) or a line of the configuration\n"
        "file (log_level: debug); the first of these that is given counts.\n"
        "Durations are written 500ms, 30s, 5m, 2h; sizes 65536, 64KiB, 4MiB.\n"
        "Defaults are in [brackets]. The reference is warmpoold.conf(5).\n"
        "\n"
        "Instead of running:\n"
        "  --check-config\n"
        "      Check settings and manifests, print what is in effect, and "
        "exit\n"
        "      with 0, or with 2 after saying what is wrong.\n"
        "  --egress-key=NAMESPACE\n"
        "      Print the key of passes for the egress proxy of a namespace; it "
        "is\n"
        "      made from token_key_file.\n"
        "  --help-settings\n"
        "      Print the reference of all settings as markdown.\n"
        "  --version, --help\n",
        out);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (rows[i].title != NULL) {
            (void)fprintf(out, "\n%s\n", rows[i].title);
        } else {
            print_flag(out, wp_setting_get(rows[i].id));
        }
    }
    (void)fputs(
        "\nSignals: SIGTERM and SIGINT drain and leave (a second one: at "
        "once);\nSIGHUP reads the templates and pools of the manifests again.\n"
        "Exit status: 0 left as asked, 1 a failure, 2 a wrong setting "
        "or manifest.\n",
        out);
}

static void
print_reference(FILE *out, const struct wp_setting *s)
{
    char expected[160];

    (void)fprintf(out, "\n### %s\n\n", s->name);
    print_wrapped(out, s->help, 0);
    (void)fputs("\n- Value: ", out);
    (void)fputs(wp_setting_expected(s, expected, sizeof expected), out);
    if (s->type != WP_SETTING_ENUM && s->choices[0] != '\0') {
        (void)fprintf(out, " (%s)", s->choices);
    }
    (void)fputs("\n- Default: ", out);
    (void)fputs(s->default_text[0] != '\0' ? s->default_text : "empty", out);
    (void)fprintf(out, "\n- Change: %s\n",
                  s->reload ? "on SIGHUP" : "needs a restart");
}

void
wp_conf_help_settings(FILE *out)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (rows[i].title != NULL) {
            if (strcmp(rows[i].title, WP_CONF_TEST_GROUP) == 0) {
                break;
            }
            (void)fprintf(out, "%s## %s\n", i > 0 ? "\n" : "", rows[i].title);
        } else {
            print_reference(out, wp_setting_get(rows[i].id));
        }
    }
}

static void
print_origin(const struct wp_conf *conf, enum wp_setting_id id, FILE *out)
{
    const char *const names[] = {"default", "file", "environment", "flag"};
    struct wp_conf_origin origin = conf->origin[id];

    if (origin.source == WP_CONF_FILE) {
        (void)fprintf(out, " # %s:%u\n", conf->config, origin.line);
    } else {
        (void)fprintf(out, " # %s\n", names[origin.source]);
    }
}

/* In quotes where YAML would read something else than the text. */
static void
print_text(const char *text, FILE *out)
{
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)fputc('\\', out);
        }
        (void)fputc(*text, out);
    }
    (void)fputc('"', out);
}

/* A URL keeps what is not secret: its scheme, and what is between the last '@'
 * and '?'. Stars stand for the rest. */
static void
print_masked(const char *text, FILE *out)
{
    size_t end = strcspn(text, "?");
    const char *at = memrchr(text, '@', end);
    const char *slashes = strstr(text, "://");
    size_t head = at != NULL && slashes != NULL && slashes < at
                      ? (size_t)(slashes - text) + strlen("://")
                      : 0;
    const char *rest = at != NULL ? at : text;
    char shown[WP_CONF_TEXT_MAX + 8];

    (void)snprintf(shown, sizeof shown, "%.*s%s%.*s%s", (int)head, text,
                   at != NULL ? "***" : "", (int)(text + end - rest), rest,
                   text[end] != '\0' ? "?***" : "");
    print_text(shown, out);
}

static void
print_list(const struct wp_conf_list *list, FILE *out)
{
    (void)fputc('[', out);
    for (uint32_t i = 0; i < list->len; i++) {
        (void)fputs(i > 0 ? ", " : "", out);
        print_text(list->items[i], out);
    }
    (void)fputc(']', out);
}

static void
print_choice(const char *choices, int choice, FILE *out)
{
    for (; choice > 0; choice--) {
        choices += strcspn(choices, "|") + 1;
    }
    (void)fprintf(out, "%.*s", (int)strcspn(choices, "|"), choices);
}

/* The value as a configuration file would say it. */
static void
print_value(const struct wp_conf *conf, enum wp_setting_id id, FILE *out)
{
    const struct wp_setting *s = wp_setting_get(id);
    const void *field = (const char *)conf + s->offset;
    char text[32];

    switch (s->type) {
    case WP_SETTING_STRING:
        print_text(*(char *const *)field, out);
        break;
    case WP_SETTING_SECRET:
        print_masked(*(char *const *)field, out);
        break;
    case WP_SETTING_BOOL:
        (void)fputs(*(const bool *)field ? "true" : "false", out);
        break;
    case WP_SETTING_LIST:
        print_list(field, out);
        break;
    case WP_SETTING_ENUM:
        print_choice(s->choices, *(const int *)field, out);
        break;
    case WP_SETTING_DURATION:
        (void)fputs(wp_conf_duration_format(*(const int64_t *)field, text),
                    out);
        break;
    case WP_SETTING_SIZE:
        (void)fputs(wp_conf_size_format(*(const int64_t *)field, text), out);
        break;
    case WP_SETTING_INT:
    default:
        (void)fprintf(out, "%lld", (long long)*(const int64_t *)field);
        break;
    }
}

void
wp_conf_print(const struct wp_conf *conf, FILE *out)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (rows[i].title != NULL) {
            (void)fprintf(out, "%s# %s\n", i > 0 ? "\n" : "", rows[i].title);
        } else if (rows[i].id != WP_SET_config) {
            (void)fprintf(out, "%s: ", wp_setting_get(rows[i].id)->name);
            print_value(conf, rows[i].id, out);
            print_origin(conf, rows[i].id, out);
        }
    }
}
