// Reads safetensors files: 8 bytes with the length of a JSON header, the header
// (name -> type, shape, place), and the values of all tensors end to end.
#ifndef FFNORM_CLI_SAFETENSORS_H_
#define FFNORM_CLI_SAFETENSORS_H_

#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ffnorm_cli {

// "(512, 2048)"
std::string ShapeText(const std::vector<size_t>& shape);

class Safetensors {
 public:
  struct Tensor {
    std::string type;
    std::vector<size_t> shape;
    size_t begin = 0;  // bytes from the first tensor's first
    size_t end = 0;
  };

  // Reads and checks the header and where the tensors are; their values are
  // read when they are asked for. On false *error is one line that names the
  // file and what is wrong with it.
  static bool Open(const std::string& path, Safetensors* file,
                   std::string* error);

  const std::string& path() const { return path_; }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }

  // The shape of a tensor; empty when there is none of that name.
  std::vector<size_t> Shape(const std::string& name) const;

  // Whether Read takes the tensor: F32, F16 and BF16, as float32 holds each
  // value of these exactly.
  bool CanRead(const std::string& name, std::string* error) const;

  // The values of the tensor, which must have this shape.
  bool Read(const std::string& name, const std::vector<size_t>& shape,
            std::vector<float>* values, std::string* error) const;

  // The same, kept as long as this object lives.
  bool Find(const std::string& name, const std::vector<size_t>& shape,
            const float** values, std::string* error) const;

  // A text that the file says about itself.
  bool Metadata(const std::string& key, std::string* text,
                std::string* error) const;

 private:
  struct Close {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };

  bool ParseHeader(const std::string& text, size_t data_bytes,
                   std::string* error);
  bool CheckPlaces(size_t data_bytes, std::string* error) const;
  bool ReadBytes(const Tensor& tensor, void* bytes) const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> stream_;
  size_t data_begin_ = 0;  // where in the file the values start
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
  mutable std::map<std::string, std::vector<float>> found_;
};

}  // namespace ffnorm_cli

#endif  // FFNORM_CLI_SAFETENSORS_H_
