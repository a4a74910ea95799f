// The section is known and documented, and refused at load until its stage is written.
import { definePlugin } from '@svc/core'
import { type DedupeConfig, dedupeSchema } from './config.js'
import { DedupeStage } from './stage.js'

export const dedupePlugin = definePlugin<DedupeConfig>({
  name: 'dedupe',
  version: '0.1.0',
  core: '^1.0.0',
  schema: dedupeSchema,
  available: false,
  create: () => new DedupeStage(),
})
