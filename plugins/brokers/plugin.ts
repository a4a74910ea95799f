// The `brokers` section: credentials for upstreams, which callers never see.
import {
  bindDefault,
  type ConfigConflict,
  checkServer,
  checkUsable,
  credential,
  type DependencyContainer,
  type DoctorCheck,
  declareMetrics,
  definePlugin,
  hostOf,
  identity,
  type MetricEntry,
  type PluginContext,
  resolve,
  resolveOptional,
  services,
  tokens,
} from '@svc/core'
import { isKeyReference, unknownServers } from '@svc/core/policy'
import { KeyReader } from '@svc/core/secret'
import { type Broker, type BrokerInput, StaticBroker } from './broker.js'
import { clientAuthOf } from './client-auth.js'
import { type BrokerConfig, brokersSchema } from './config.js'
import { HeaderWriter } from './header.js'
import { credentialSource, Keys } from './keys.js'
import { OnBehalfBroker } from './on-behalf-broker.js'
import { PoolBroker } from './pool-broker.js'
import { BrokersStage } from './stage.js'

const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_broker_exchanges_total: { kind: 'counter', help: 'Token exchanges requested.' },
  svc_broker_exchange_failures_total: { kind: 'counter', help: 'Token exchanges that failed.' },
  svc_broker_key_cooldowns_total: {
    kind: 'counter',
    help: 'Cooldowns of pool keys that the upstream refused.',
  },
}

export const brokersPlugin = definePlugin({
  name: 'brokers',
  version: '1.0.0',
  core: '^1.0.0',
  schema: brokersSchema,
  phase: 'credential',
  uses: [identity],
  provides: [credential],

  check: (config, bindings) => [
    ...unknownServers(['brokers'], config, bindings),
    ...Object.entries(config).flatMap(([server, broker]) => checkBroker(server, broker, bindings)),
  ],

  create(config, context) {
    declareMetrics(context.container, metrics)
    const inputs = Object.entries(config).map(([server, broker]) => inputFor(server, broker, context))
    const brokers = new Map(inputs.map((input) => [input.server, createBroker(input)]))
    const check = async () => (await Promise.all(inputs.map(checkSources))).flat()
    const stage = new BrokersStage(brokers, check)
    bindDefault(context.container, services.ownCredential, {
      useValue: (server) => stage.ownCredential(server),
    })
    return stage
  },
})

function inputFor(server: string, config: BrokerConfig, context: PluginContext): BrokerInput {
  const { container } = context
  const clock = resolve(container, tokens.Clock)
  const source = resolveOptional(container, credentialSource)
  const keys = new Keys({ reader: new KeyReader(context, config.key_dirs), source, clock })
  const meter = resolveOptional(container, tokens.Meter)
  return { server, config, context, clock, meter, keys, header: new HeaderWriter(config.inject) }
}

function createBroker(input: BrokerInput): Broker {
  const { config, keys, header } = input
  if (config.type === 'vendor_key_pool') return new PoolBroker(input)
  if (config.type === 'oidc_on_behalf') return new OnBehalfBroker(input)
  const [ref = ''] = config.key_refs ?? []
  return new StaticBroker(ref, keys, header)
}

function checkBroker(server: string, broker: BrokerConfig, bindings: DependencyContainer): ConfigConflict[] {
  const { serversWithoutHeaders = [], place } = hostOf(bindings)
  const hasSource = bindings.isRegistered(credentialSource, true)
  const path = ['brokers', server]
  const reader = place && new KeyReader(place, broker.key_dirs)
  return [
    ...(serversWithoutHeaders.includes(server) ? [unusable(server, path)] : []),
    ...referencesOf(broker).flatMap(([at, ref]) => {
      const message = !isKeyReference(ref) ? missingSource(hasSource) : reader?.fileError(ref)
      return message === undefined ? [] : [{ path: [...path, ...at], message }]
    }),
  ]
}

function unusable(server: string, path: readonly string[]): ConfigConflict {
  const message = `the server "${server}" is a command, which gets no HTTP headers and so not this credential; set it in targets.${server}.env`
  return { path, message, severity: 'warning' }
}

/** The key references and their paths within the broker. */
function referencesOf({ key_refs = [], client_secret_ref, private_key_ref }: BrokerConfig) {
  const named = Object.entries({ client_secret_ref, private_key_ref })
  return [
    ...key_refs.map((ref, index) => [['key_refs', index], ref] as const),
    ...named.flatMap(([key, ref]) => (ref === undefined ? [] : [[[key], ref] as const])),
  ]
}

function missingSource(hasSource: boolean): string | undefined {
  return hasSource
    ? undefined
    : 'is none of env:NAME, file://PATH and command:NAME, and no CredentialSource is bound'
}

async function checkSources(input: BrokerInput): Promise<readonly DoctorCheck[]> {
  const { server, config, keys, header } = input
  if (config.type === 'oidc_on_behalf') {
    const hint = `set what brokers.${server} names as its secret or private key`
    const subject = `the credential of brokers.${server} at its token endpoint`
    return [
      await checkUsable(subject, hint, () => clientAuthOf(input)()),
      ...(await checkServer(`the token endpoint of brokers.${server}`, config.token_endpoint ?? '')),
    ]
  }
  const refs = config.key_refs ?? []
  return Promise.all(
    refs.map((ref, index) =>
      checkUsable(
        `brokers.${server}.key_refs[${index}]`,
        'set the variable or file, or mend the command, that it names',
        async () => header.value(await keys.get(ref)),
      ),
    ),
  )
}
