// The command line program `ffnorm`. README.md shows what it does.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/terminal.h"
#include "ffnorm/ffnorm.h"

namespace ffnorm_cli {
namespace {

constexpr size_t kMaxThreads = 1024;

constexpr char kAbout[] =
    "Feed-forward blocks of transformers on the CPU, float32:\n"
    "  Pre-LN   y = x + relu(LN(x) W1 + b1) W2 + b2\n"
    "  Post-LN  y = LN(x + relu(x W1 + b1) W2 + b2)";

constexpr char kFooter[] =
    "From a model to a result:\n"
    "  ffnorm pack model.safetensors -o blocks\n"
    "  ffnorm run blocks/layers.0.post.ffnorm x.npy -o y.npy\n"
    "\n"
    "`ffnorm SUBCOMMAND --help` says more about each.\n"
    "\n"
    "Exit status: 0 done; 1 a file is bad or something could not be done;\n"
    "2 the command line is wrong. Errors are one line on stderr.\n"
    "Environment: FFNORM_TARGET chooses the instruction set (see ffnorm "
    "info);\n"
    "NO_COLOR turns colours off.";

constexpr char kInfoFooter[] =
    "Example:\n"
    "  ffnorm info\n"
    "  FFNORM_TARGET=SSE4 ffnorm info";

constexpr char kPackFooter[] =
    "A block is two Dense layers with ReLU between them and a LayerNorm. These "
    "names\n"
    "are known:\n"
    "  w1 b1 w2 b2 gamma beta                      as examples/tinylm writes\n"
    "  Dense_0 Dense_1 LayerNorm_N                 Flax Linen, (in, out)\n"
    "  linear1 linear2 norm2 (norm3 in a decoder)  PyTorch nn.Transformer, "
    "(out, in)\n"
    "  fc1 fc2 final_layer_norm                    OPT, fairseq, (out, in)\n"
    "Others are told with --names W1,B1,W2,B2,SCALE,OFFSET, the six endings of "
    "names,\n"
    "empty for what there is none of. Order and epsilon come from the options, "
    "the\n"
    "file's metadata, or the config.json beside it; what has to be guessed is "
    "printed\n"
    "as guessed.\n"
    "\n"
    "Each block becomes a file NAME.pre.ffnorm or NAME.post.ffnorm, of the "
    "same bytes\n"
    "on every machine, that every CPU opens. F32 is packed as it is, F16 and "
    "BF16 are\n"
    "widened exactly.\n"
    "\n"
    "Examples:\n"
    "  ffnorm pack model.safetensors --list\n"
    "  ffnorm pack model.safetensors -o blocks\n"
    "  ffnorm pack model.safetensors --order pre --epsilon 1e-6\n"
    "  ffnorm pack gpt.safetensors --order pre --layout in_out \\\n"
    "    --names mlp.up.w,mlp.up.b,mlp.down.w,mlp.down.b,norm.w,norm.b";

constexpr char kRunFooter[] =
    "x is float32 in C order, as np.save writes it; its last axis is d_model. "
    "y has\n"
    "the shape of x. The result has the same bits on any number of threads.\n"
    "\n"
    "Examples:\n"
    "  ffnorm run layers.0.pre.ffnorm x.npy\n"
    "  ffnorm run block.ffnorm x.npy -o y.npy --order post --threads 4";

constexpr char kBenchFooter[] =
    "FLOPs are 4 * rows * d_model * d_ff. The roof of a call is the lower of "
    "the\n"
    "multiply-add peak and what reading the weights once allows. On a machine "
    "that\n"
    "others use too, the light part of a bar is the steadier one.\n"
    "\n"
    "Examples:\n"
    "  ffnorm bench --quick\n"
    "  ffnorm bench --shape 768x3072 --rows 1,64 --threads 2";

void AddThreads(CLI::App* command, size_t* threads) {
  command->add_option("--threads", *threads, "Threads to run on, 1 to 1024")
      ->check(CLI::Range(size_t{1}, kMaxThreads).description(""))
      ->type_name("N")
      ->capture_default_str();
}

void AddInfo(CLI::App* app, InfoOptions* options) {
  CLI::App* const command = app->add_subcommand(
      "info", "Version, instruction sets, and what this CPU can do");
  AddThreads(command, &options->threads);
  command->footer(kInfoFooter);
  command->final_callback([options] { Info(*options); });
}

void AddPack(CLI::App* app, PackOptions* options) {
  CLI::App* const command =
      app->add_subcommand("pack", "Packs the feed-forward blocks of a model");
  GivenHints& given = options->given;
  command->add_option("model", options->model, "A safetensors file")
      ->required()
      ->type_name("MODEL.safetensors");
  command
      ->add_option("-o,--output", options->folder,
                   "Where the packed blocks go; made if it is not there")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_flag("-l,--list", options->list,
                    "Only show what is found, and what is guessed");
  command->add_option("--order", given.order, "Where LayerNorm stands")
      ->check(CLI::IsMember({"pre", "post"}).description(""))
      ->type_name("pre|post");
  command
      ->add_option("--layout", given.layout,
                   "How weights lie: Flax's way, PyTorch's")
      ->check(CLI::IsMember({"in_out", "out_in"}).description(""))
      ->type_name("in_out|out_in");
  command->add_option("--epsilon", given.epsilon, "LayerNorm's epsilon")
      ->type_name("X");
  command
      ->add_option("--names", given.names,
                   "What the tensors' names end in, see below")
      ->type_name("NAMES");
  command->add_flag("--no-config", given.no_config,
                    "Do not read the config.json beside the model");
  command->footer(kPackFooter);
  command->final_callback([options] { Pack(*options); });
}

void AddRun(CLI::App* app, RunOptions* options) {
  CLI::App* const command =
      app->add_subcommand("run", "Runs a packed block on a .npy file");
  command->add_option("block", options->block, "A packed block")
      ->required()
      ->type_name("BLOCK.ffnorm");
  command->add_option("x", options->x, "Its input")
      ->required()
      ->type_name("X.npy");
  command->add_option("-o,--output", options->y, "Where the result goes")
      ->type_name("Y.npy")
      ->capture_default_str();
  command
      ->add_option("--order", options->order,
                   "Instead of what the block's name says")
      ->check(CLI::IsMember({"pre", "post"}).description(""))
      ->type_name("pre|post");
  AddThreads(command, &options->threads);
  command->footer(kRunFooter);
  command->final_callback([options] { Run(*options); });
}

void AddBench(CLI::App* app, BenchOptions* options) {
  CLI::App* const command =
      app->add_subcommand("bench", "Measures both blocks on this CPU");
  command->add_flag("--quick", options->quick, "About ten seconds");
  command->add_option("--shape", options->shapes, "d_model x d_ff")
      ->delimiter(',')
      ->type_name("512x2048,...");
  command->add_option("--rows", options->rows, "Rows of x")
      ->delimiter(',')
      ->type_name("1,16,...");
  AddThreads(command, &options->threads);
  command->footer(kBenchFooter);
  command->final_callback([options] { Bench(*options); });
}

int Complain(ExitStatus status, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "ffnorm: %s\n", Printable(text).c_str());
  return status;
}

// CLI11 only says that a subcommand is missing.
bool IsKnown(const CLI::App& app, const std::string& first) {
  const auto named = [&](const CLI::App* command) {
    return command->get_name() == first;
  };
  return first == "-h" || first == "--help" || first == "--version" ||
         !app.get_subcommands(named).empty();
}

int Parse(CLI::App& app, int argc, char** argv) {
  if (argc > 1 && !IsKnown(app, argv[1])) {
    return Complain(
        kUsage, std::string("there is no ") + argv[1] + " (see ffnorm --help)");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::string command = "ffnorm ";
    for (const CLI::App* const subcommand : app.get_subcommands()) {
      command += subcommand->get_name() + " ";
    }
    return Complain(kUsage,
                    std::string(error.what()) + " (see " + command + "--help)");
  } catch (const Failure& failure) {
    return Complain(failure.status(), failure.what());
  } catch (const std::bad_alloc&) {
    return Complain(kFailed, "out of memory");
  } catch (const std::exception& error) {
    return Complain(kFailed, error.what());
  }
  return kDone;
}

int Main(int argc, char** argv) {
  CLI::App app(kAbout, "ffnorm");
  app.set_version_flag("--version", std::string("ffnorm ") + ffnorm_version());
  app.require_subcommand(1);
  app.get_formatter()->column_width(36);
  app.footer(kFooter);
  InfoOptions info;
  PackOptions pack;
  RunOptions run;
  BenchOptions bench;
  AddInfo(&app, &info);
  AddPack(&app, &pack);
  AddRun(&app, &run);
  AddBench(&app, &bench);
  const int status = Parse(app, argc, argv);
  if (status == kDone && (std::fflush(stdout) != 0 || std::ferror(stdout))) {
    return Complain(kFailed, "standard output cannot be written");
  }
  return status;
}

}  // namespace
}  // namespace ffnorm_cli

int main(int argc, char** argv) { return ffnorm_cli::Main(argc, argv); }
