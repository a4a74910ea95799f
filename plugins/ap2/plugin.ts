// The section is documented, and refused at load until its stage is implemented.
import { definePlugin } from '@svc/core'
import { ap2Schema } from './config.js'
import { Ap2Stage } from './stage.js'

export const ap2Plugin = definePlugin({
  name: 'ap2',
  version: '0.1.0',
  core: '^1.0.0',
  schema: ap2Schema,
  phase: 'inspection',
  nestedIn: 'security',
  available: false,
  create: () => new Ap2Stage(),
})
