// A stage as a pipeline makes it: the section parsed, the plugin registered, the stage created.
import { strict as assert } from 'node:assert'
import type { Plugin, PluginContext, Stage } from '@svc/core'

/** `section` is written as in a policy, before defaults. Throws where the schema refuses it. Nothing is started. */
export function createStage(plugin: Plugin, section: unknown, context: PluginContext): Stage {
  return createStageIn(plugin, section, {
    ...context,
    container: context.container.createChildContainer(),
  })
}

/** The same, with its bindings in the container of `context`. */
export function createStageIn(plugin: Plugin, section: unknown, context: PluginContext): Stage {
  const config = parseSection(plugin, section)
  plugin.register?.(config, context)
  return plugin.create(config, context)
}

export function parseSection(plugin: Plugin, section: unknown): unknown {
  const result = plugin.schema.safeParse(section)
  assert.ok(result.success, `the schema refuses it: ${result.error?.message}`)
  return result.data
}
