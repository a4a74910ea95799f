// The section is known and documented, and refused at load until its stage is written.
import { definePlugin } from '@svc/core'
import { type BrokersConfig, brokersSchema } from './config.js'
import { BrokersStage } from './stage.js'

export const brokersPlugin = definePlugin<BrokersConfig>({
  name: 'brokers',
  version: '0.1.0',
  core: '^1.0.0',
  schema: brokersSchema,
  available: false,
  create: () => new BrokersStage(),
})
