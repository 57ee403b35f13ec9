"""Chat templates with tools, of two styles, as models ship them."""

from __future__ import annotations

HERMES = r"""
{%- if tools %}
{{- '<|im_start|>system\nYou may call these functions:\n<tools>' }}
{%- for tool in tools %}{{- '\n' + (tool | tojson) }}{% endfor %}
{{- '\n</tools>\nCall one as <tool_call>\n{"name": NAME, "arguments": OBJECT}\n</tool_call><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\n<tool_response name="' + message.name + '">\n' + message.content + '\n</tool_response>' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\n' + message.content }}
{%- for call in message.tool_calls %}
{{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson + '}\n</tool_call>' }}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}
"""

LLAMA = r"""
{%- if tools is not none %}
{{- '<|start_header_id|>system<|end_header_id|>\n\nFunctions, to be called as {"name": N, "parameters": P}:\n' }}
{%- for tool in tools %}{{- tool | tojson(indent=2) + '\n' }}{% endfor %}{{- '<|eot_id|>' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' or message.role == 'ipython' %}
{{- '<|start_header_id|>ipython<|end_header_id|>\n\n' + (message.content | tojson) + '<|eot_id|>' }}
{%- elif 'tool_calls' in message %}
{%- if message.tool_calls | length != 1 %}{{- raise_exception('one call at a time') }}{% endif %}
{%- set call = message.tool_calls[0].function %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n<|python_tag|>{"name": "' + call.name + '", "parameters": ' }}
{{- call.arguments | tojson + '}<|eot_id|>' }}
{%- else %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}
"""
