// The `brokers` section: the credentials that upstreams want, so that no caller ever holds them.
import {
  type Clock,
  canonicalize,
  credential,
  definePlugin,
  identity,
  KeyReader,
  type PluginContext,
  resolve,
  resolveOptional,
  tokens,
} from '@svc/core'
import type { Broker } from './broker.js'
import { type BrokerConfig, type BrokersConfig, brokersSchema } from './config.js'
import { credentialSource } from './credential-source.js'
import { HeaderWriter } from './header.js'
import { KeyRota } from './key-rota.js'
import { Keys } from './keys.js'
import { PoolBroker } from './pool-broker.js'
import { BrokersStage } from './stage.js'
import { StaticBroker } from './static-broker.js'

export const brokersPlugin = definePlugin<BrokersConfig>({
  name: 'brokers',
  version: '0.1.0',
  core: '^1.0.0',
  schema: brokersSchema,
  uses: [identity],
  provides: [credential],

  create(config, context) {
    const made = Object.entries(config).map(([server, broker]) => makeBroker(server, broker, context))
    return new BrokersStage({
      brokers: new Map(made.map(({ server, broker }) => [server, broker])),
      faults: () => made.flatMap(({ faults }) => faults()),
    })
  },
})

interface Made {
  readonly server: string
  readonly broker: Broker
  faults(): string[]
}

function makeBroker(server: string, config: BrokerConfig, context: PluginContext): Made {
  const { container } = context
  const clock = resolve(container, tokens.Clock)
  const source = resolveOptional(container, credentialSource)
  const keys = new Keys({ reader: new KeyReader(context, config.key_dirs), source, clock })
  const refs = Object.entries({ key_refs: config.key_refs }).flatMap(([at, list = []]) =>
    list.map((ref, index) => ({ at: `${at}[${index}]`, ref })),
  )
  return {
    server,
    broker: brokerOf({ server, config, context, keys, clock }),
    faults: () => [
      ...(Object.hasOwn(context.targets, server) ? [] : [noTarget(server, context)]),
      ...refs.flatMap(({ at, ref }) => {
        const fault = keys.fault(ref)
        return fault === undefined ? [] : [`brokers.${server}.${at}: ${fault}`]
      }),
    ],
  }
}

function noTarget(server: string, { targets }: PluginContext): string {
  const known = Object.keys(targets).join(', ') || 'none'
  return `brokers.${server}: there is no server "${server}" in targets; known: ${known}`
}

interface BrokerParts {
  readonly server: string
  readonly config: BrokerConfig
  readonly context: PluginContext
  readonly keys: Keys
  readonly clock: Clock
}

function brokerOf(parts: BrokerParts): Broker {
  const { config, keys } = parts
  const header = new HeaderWriter(config.inject)
  if (config.type === 'vendor_key_pool') return poolOf(parts, header)
  const [ref = ''] = config.key_refs ?? []
  return new StaticBroker(ref, keys, header)
}

function poolOf({ server, config, context, keys, clock }: BrokerParts, header: HeaderWriter): PoolBroker {
  const { container, resources } = context
  const refs = config.key_refs ?? []
  return new PoolBroker({
    server,
    refs,
    keys,
    header,
    restMs: config.rest_sec * 1000,
    maxRestMs: config.max_rest_sec * 1000,
    retryOn: config.retry_on,
    clock,
    logger: resolveOptional(container, tokens.Logger),
    meter: resolveOptional(container, tokens.Meter),
    leaseRota: () =>
      resources.acquire(`brokers rota ${canonicalize({ server, refs })}`, () => ({
        value: new KeyRota(refs.length),
        close: () => undefined,
      })),
  })
}
