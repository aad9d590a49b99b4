// A program as a user writes it, built against the installed package.
#include <openclaw/openclaw.h>

#include <iostream>

int main() {
  const oc::StatusOr<oc::Shape> parsed = oc::Shape::Parse("[B, 28, 28, 1]");
  if (!parsed.ok()) {
    std::cerr << parsed.status() << "\n";
    return 1;
  }
  const oc::Shape shape = parsed->Bind({{"B", 64}});
  const oc::Philox rng(/*key=*/1);
  const float u = oc::UniformFloat(rng.Word(/*stream=*/2, /*index=*/3));
  std::cout << shape.ToString() << " has " << shape.num_elements() << " elements; u = " << u
            << "\n";
  return shape.num_elements() == 64 * 28 * 28 && u >= 0 && u < 1 ? 0 : 1;
}
