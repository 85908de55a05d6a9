// Reads safetensors files: 8 bytes with the length of a JSON header, the header
// (name -> type, shape, place), and the values of all tensors end to end.
#ifndef FFNORM_EXAMPLES_TINYLM_SAFETENSORS_H_
#define FFNORM_EXAMPLES_TINYLM_SAFETENSORS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tinylm {

class Safetensors {
 public:
  // Reads and checks the whole file. On false *error is one line that names the
  // file and what is wrong with it.
  static bool Open(const std::string& path, Safetensors* file,
                   std::string* error);

  // The shape of a tensor; empty when there is none of that name.
  std::vector<size_t> Shape(const std::string& name) const;

  // The float32 values of the tensor, which must have this shape. They live as
  // long as this object.
  bool Find(const std::string& name, const std::vector<size_t>& shape,
            const float** values, std::string* error) const;

  // A text that the file says about itself.
  bool Metadata(const std::string& key, std::string* text,
                std::string* error) const;

  const std::string& path() const { return path_; }

 private:
  struct Tensor {
    std::string type;
    std::vector<size_t> shape;
    size_t begin = 0;  // bytes in data_
    size_t end = 0;
  };

  bool ParseHeader(const std::string& text, size_t data_bytes,
                   std::string* error);
  bool CheckPlaces(size_t data_bytes, std::string* error) const;

  std::string path_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
  std::vector<float> data_;  // of float, for its alignment
};

}  // namespace tinylm

#endif  // FFNORM_EXAMPLES_TINYLM_SAFETENSORS_H_
