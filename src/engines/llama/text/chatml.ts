/** The form that most small models know, for models that bring no template of their own, or a broken one. */
export const chatMl = [
  "{%- for message in messages -%}",
  "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}",
  "{%- endfor -%}",
  "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}",
].join("\n");
