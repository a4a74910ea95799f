// The section is known and documented, and refused at load until its stage is written.
import { definePlugin } from '@svc/core'
import { type RuntimeConfig, runtimeSchema } from './config.js'
import { RuntimeStage } from './stage.js'

export const runtimePlugin = definePlugin<RuntimeConfig>({
  name: 'runtime',
  version: '0.1.0',
  core: '^1.0.0',
  schema: runtimeSchema,
  available: false,
  create: () => new RuntimeStage(),
})
