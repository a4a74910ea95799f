// The `blocks` section: what operators block or turn off while the gateway runs, in every policy.
import { definePlugin, identity, resolveOptional } from '@svc/core'
import { z } from 'zod'
import { BlockList } from './block.js'
import { blockSource, blockStage } from './stage.js'

const nothing = new BlockList([])

export const blocksPlugin = definePlugin({
  name: 'blocks',
  version: '1.0.0',
  core: '^1.0.0',
  schema: z
    .strictObject({})
    .prefault({})
    .describe(
      'Refuses what operators block or turn off while the gateway runs (`svc block`), in observe mode too. It has no keys; a `pipeline` that leaves it out has it directly inside the stage that identifies callers.',
    ),
  phase: 'blocking',
  uses: [identity],

  create(_config, { container }) {
    return blockStage(resolveOptional(container, blockSource) ?? { current: () => nothing })
  },
})
