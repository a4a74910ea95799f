// The `brokers` section: credentials for upstreams, which callers never see.
import {
  credential,
  definePlugin,
  identity,
  type PluginContext,
  resolve,
  resolveOptional,
  tokens,
} from '@svc/core'
import { KeyReader } from '@svc/core/secret'
import type { Broker } from './broker.js'
import { checkBroker } from './check.js'
import { type BrokerConfig, brokersSchema } from './config.js'
import { type BrokerInput, createOnBehalfBroker, createPoolBroker } from './create-broker.js'
import { credentialSource } from './credential-source.js'
import { checkSources } from './doctor.js'
import { HeaderWriter } from './header.js'
import { Keys } from './keys.js'
import { metrics } from './metrics.js'
import { BrokersStage } from './stage.js'
import { StaticBroker } from './static-broker.js'

export const brokersPlugin = definePlugin({
  name: 'brokers',
  version: '0.1.0',
  core: '^1.0.0',
  schema: brokersSchema,
  phase: 'credential',
  metrics,
  uses: [identity],
  provides: [credential],

  check: (config, facts, isBound) =>
    Object.entries(config).flatMap(([server, broker]) =>
      checkBroker({ server, broker, facts, hasSource: isBound(credentialSource) }),
    ),

  create(config, context) {
    const inputs = Object.entries(config).map(([server, broker]) => inputFor(server, broker, context))
    return new BrokersStage(new Map(inputs.map((input) => [input.server, createBroker(input)])))
  },

  async doctor(config, context) {
    const inputs = Object.entries(config).map(([server, broker]) => inputFor(server, broker, context))
    return (await Promise.all(inputs.map(checkSources))).flat()
  },
})

function inputFor(server: string, config: BrokerConfig, context: PluginContext): BrokerInput {
  const { container } = context
  const clock = resolve(container, tokens.Clock)
  const source = resolveOptional(container, credentialSource)
  const keys = new Keys({ reader: new KeyReader(context, config.key_dirs), source, clock })
  return { server, config, context, clock, keys, header: new HeaderWriter(config.inject) }
}

function createBroker(input: BrokerInput): Broker {
  const { config, keys, header } = input
  if (config.type === 'vendor_key_pool') return createPoolBroker(input)
  if (config.type === 'oidc_on_behalf') return createOnBehalfBroker(input)
  const [ref = ''] = config.key_refs ?? []
  return new StaticBroker(ref, keys, header)
}
