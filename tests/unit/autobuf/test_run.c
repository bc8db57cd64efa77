/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arguments.h"

#define HEADERS 4

/* A program of nothing but what is looked at. */
struct image {
    ElfW(Ehdr) header;
    ElfW(Phdr) headers[HEADERS];
    ElfW(Dyn) dynamic[3];
    char linker[64];
    char names[64];
    struct {
        ElfW(Nhdr) note;
        char name[4];
        char more[8];
        ElfW(Nhdr) go;
        char go_name[4];
        char go_more[4];
    } notes;
};

static ElfW(Half) own_machine(void)
{
    ElfW(Ehdr) own;
    int fd = open("/proc/self/exe", O_RDONLY);

    assert_int_equal(read(fd, &own, sizeof own), sizeof own);
    close(fd);
    return own.e_machine;
}

/* A program that is reached. */
static struct image good_image(void)
{
    struct image image = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32},
                   .e_machine = own_machine(),
                   .e_phoff = offsetof(struct image, headers),
                   .e_phentsize = sizeof(ElfW(Phdr)),
                   .e_phnum = HEADERS},
        .headers = {{.p_type = PT_LOAD, .p_vaddr = 0x1000, .p_filesz = sizeof image},
                    {.p_type = PT_INTERP, .p_offset = offsetof(struct image, linker), .p_filesz = sizeof image.linker},
                    {.p_type = PT_DYNAMIC, .p_offset = offsetof(struct image, dynamic),
                     .p_filesz = sizeof image.dynamic},
                    {.p_type = PT_NOTE, .p_offset = offsetof(struct image, notes), .p_filesz = sizeof image.notes}},
        .dynamic = {{.d_tag = DT_STRTAB, .d_un = {.d_ptr = 0x1000 + offsetof(struct image, names)}},
                    {.d_tag = DT_STRSZ, .d_un = {.d_val = sizeof image.names}}},
        .linker = "/lib64/ld-linux-x86-64.so.2",
        .names = "\0libc.so.6\0read\0",
        .notes = {.note = {4, 8, 3}, .name = "GNU", .go = {4, 4, 5}, .go_name = "GNU"},
    };

    return image;
}

static int file_of(const void *data, size_t bytes)
{
    int fd = memfd_create("image", 0);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
    return fd;
}

static const char *unreached(const void *data, size_t bytes)
{
    int fd = file_of(data, bytes);
    char path[64];
    const char *why;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    why = program_unreached(path);
    close(fd);
    return why;
}

static void each_kind_is_told(void **state)
{
    struct image image = good_image();

    (void)state;
    assert_null(unreached(&image, sizeof image));
    image.headers[1].p_type = PT_NULL;
    assert_string_equal(unreached(&image, sizeof image), "static");
    image = good_image();
    image.header.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS32 : ELFCLASS64;
    assert_string_equal(unreached(&image, sizeof image), "built for another machine");
    image = good_image();
    image.header.e_machine++;
    assert_string_equal(unreached(&image, sizeof image), "built for another machine");
    image = good_image();
    for (size_t i = 0; i < 5; i++) {
        static const char *const linkers[] = {"/lib/ld-musl-x86_64.so.1", "/lib/ld64-uClibc.so.0", "/lib64/ld64.so.2",
                                              "/lib/ld.so.1", "/opt/glibc/lib/ld-linux-x86-64.so.2"};

        strcpy(image.linker, linkers[i]);
        if (i < 2)
            assert_string_equal(unreached(&image, sizeof image), "uses another C library");
        else
            assert_null(unreached(&image, sizeof image));
    }
    image = good_image();
    strcpy(image.names + 20, "__asan_init");
    assert_string_equal(unreached(&image, sizeof image), "has a sanitizer");
    strcpy(image.names + 20, "__asan_initial");
    assert_null(unreached(&image, sizeof image));
    image = good_image();
    memcpy(image.notes.go_name, "Go\0", 4);
    assert_null(unreached(&image, sizeof image));
    image.notes.go.n_type = 4;
    assert_string_equal(unreached(&image, sizeof image), "a Go program");
}

/* A file that is broken is exec()'s to refuse. */
static void broken_files_are_left_to_exec(void **state)
{
    struct image image = good_image();

    (void)state;
    assert_null(unreached("", 0));
    assert_null(unreached("\x7f" "ELF", 4));
    assert_null(unreached("echo hello\n", 11));
    assert_null(unreached("#!", 2));
    assert_null(unreached("#! \n", 4));
    assert_null(program_unreached("/nonexistent"));
    assert_null(program_unreached("/"));
    image.header.e_phoff = UINT32_MAX;
    assert_null(unreached(&image, sizeof image));
    image = good_image();
    image.header.e_phentsize = 1;
    assert_null(unreached(&image, sizeof image));
    image = good_image();
    image.dynamic[1].d_un.d_val = (ElfW(Addr))-1;
    assert_null(unreached(&image, sizeof image));
    image = good_image();
    image.dynamic[0].d_un.d_ptr = (ElfW(Addr))-1;
    assert_null(unreached(&image, sizeof image));
}

static void any_file_is_looked_at_safely(void **state)
{
    uint64_t seed = 21;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct image image = good_image();
        size_t bytes = unit_random(&seed) % 4 ? sizeof image : (size_t)(unit_random(&seed) % sizeof image);
        const char *why;

        for (uint64_t k = unit_random(&seed) % 8; k; k--)
            ((unsigned char *)&image)[unit_random(&seed) % sizeof image] = (unsigned char)unit_random(&seed);
        why = unreached(&image, bytes);
        assert_true(!why || strlen(why) > 5);
    }
}

/* A folder with an executable file of this text. */
static void put_script(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
}

static void a_script_is_what_runs_it(void **state)
{
    char folder[] = "/tmp/program.XXXXXX", image_path[64], script[64], again[64], text[160];
    struct image image = good_image();
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(image_path, sizeof image_path, "%s/static", folder);
    snprintf(script, sizeof script, "%s/script", folder);
    snprintf(again, sizeof again, "%s/again", folder);
    image.headers[1].p_type = PT_NULL;
    file = fopen(image_path, "w");
    assert_int_equal(fwrite(&image, sizeof image, 1, file), 1);
    fclose(file);
    snprintf(text, sizeof text, "#! \t%s -x\necho\n", image_path);
    put_script(script, text);
    assert_string_equal(program_unreached(script), "static");
    snprintf(text, sizeof text, "#!%s", script);
    put_script(again, text);
    assert_string_equal(program_unreached(again), "static");
    snprintf(text, sizeof text, "#!%s\n", again);
    put_script(again, text); /* round and round */
    assert_null(program_unreached(again));

    assert_int_equal(chmod(image_path, 04755), 0);
    assert_string_equal(program_unreached(image_path), "static"); /* one's own */
    if (geteuid() == 0) {
        assert_int_equal(chown(image_path, 65534, 0), 0);
        assert_int_equal(chmod(image_path, 04755), 0);
        assert_string_equal(program_unreached(image_path), "set-user-ID, or with capabilities");
        assert_int_equal(chmod(image_path, 0755), 0);
        assert_string_equal(program_unreached(image_path), "static");
        assert_int_equal(chown(image_path, 0, 65534), 0);
        assert_int_equal(chmod(image_path, 02755), 0);
        assert_string_equal(program_unreached(image_path), "set-user-ID, or with capabilities");
        assert_int_equal(chmod(image_path, 02745), 0); /* without x it is no set-group-ID */
        assert_string_equal(program_unreached(image_path), "static");
    }
    unlink(image_path);
    unlink(script);
    unlink(again);
    rmdir(folder);
}

static void programs_are_found_as_execvp_finds_them(void **state)
{
    char folder[] = "/tmp/program.XXXXXX", file[64], path[128], variable[128];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/prog", folder);
    put_script(file, "");
    snprintf(variable, sizeof variable, "/nonexistent:%s", folder);
    assert_int_equal(setenv("PATH", variable, 1), 0);
    assert_true(program_find("prog", path, sizeof path));
    assert_string_equal(path, file);
    assert_true(program_find(file, path, sizeof path));
    assert_false(program_find("nothing", path, sizeof path));
    assert_false(program_find("prog", path, 8));
    assert_int_equal(setenv("PATH", "", 1), 0);
    assert_int_equal(chdir(folder), 0);
    assert_true(program_find("prog", path, sizeof path));
    assert_string_equal(path, "./prog");
    assert_int_equal(chmod(file, 0644), 0);
    assert_false(program_find("prog", path, sizeof path));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkdir(file, 0755), 0);
    assert_false(program_find("prog", path, sizeof path));
    assert_int_equal(rmdir(file), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_is_told),
        cmocka_unit_test(broken_files_are_left_to_exec),
        cmocka_unit_test(any_file_is_looked_at_safely),
        cmocka_unit_test(a_script_is_what_runs_it),
        cmocka_unit_test(programs_are_found_as_execvp_finds_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
