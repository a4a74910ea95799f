// The `brokers` section: the credentials that upstreams want, so that no caller ever holds them.
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
import { type BrokerConfig, brokersSchema } from './config.js'
import { credentialSource } from './credential-source.js'
import { HeaderWriter } from './header.js'
import { Keys } from './keys.js'
import { type Making, onBehalfFrom, poolFrom } from './make.js'
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

  create(config, context) {
    const makings = Object.entries(config).map(([server, broker]) => makingOf(server, broker, context))
    return new BrokersStage({
      brokers: new Map(makings.map((making) => [making.server, brokerFrom(making)])),
      faults: () => makings.flatMap(faultsOf),
    })
  },
})

function makingOf(server: string, config: BrokerConfig, context: PluginContext): Making {
  const { container } = context
  const clock = resolve(container, tokens.Clock)
  const source = resolveOptional(container, credentialSource)
  const keys = new Keys({ reader: new KeyReader(context, config.key_dirs), source, clock })
  return { server, config, context, clock, keys, header: new HeaderWriter(config.inject) }
}

function brokerFrom(making: Making): Broker {
  const { config, keys, header } = making
  if (config.type === 'vendor_key_pool') return poolFrom(making)
  if (config.type === 'oidc_on_behalf') return onBehalfFrom(making)
  const [ref = ''] = config.key_refs ?? []
  return new StaticBroker(ref, keys, header)
}

/** What no call could get past, and the schema cannot know. */
function faultsOf({ server, config, context, keys }: Making): string[] {
  const { client_secret_ref, private_key_ref } = config
  const refs = [
    ...(config.key_refs ?? []).map((ref, index) => [`key_refs[${index}]`, ref] as const),
    ...Object.entries({ client_secret_ref, private_key_ref }),
  ]
  const known = Object.keys(context.targets).join(', ') || 'none'
  return [
    ...(Object.hasOwn(context.targets, server)
      ? []
      : [`brokers.${server}: there is no server "${server}" in targets; known: ${known}`]),
    ...refs.flatMap(([at, ref]) => {
      const fault = ref === undefined ? undefined : keys.fault(ref)
      return fault === undefined ? [] : [`brokers.${server}.${at}: ${fault}`]
    }),
  ]
}
