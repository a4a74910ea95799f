// Typed tokens of the container. tsyringe's symbols have no type, so a token here has one, and these functions use it.
import 'reflect-metadata'
import { type DependencyContainer, instanceCachingFactory } from 'tsyringe'
import { contractName, contractSymbol } from '../call/contract.js'
import type { ToolAnnotations } from '../call/definitions.js'
import type { DecisionEvaluator } from './evaluation.js'
import type { KeyValueStore } from './key-value-store.js'
import type { Notices } from './notices.js'
import type { QuotaAdapter } from './quota-adapter.js'
import type { Signer } from './signer.js'

export type Token<T> = symbol & { readonly type?: T }

/** The token of a name, the same in every copy of this package. A plugin's tokens begin with its section (`authn/JwksSource`). */
export function token<T>(name: string): Token<T> {
  return contractSymbol('token', name)
}

/**
 * The value; a factory that is called once, on first use; or a function that is called at each use for the object that runs
 * then, and returns undefined while none does.
 */
export type Binding<T> =
  | { useValue: T }
  | { useFactory: (container: DependencyContainer) => T }
  | { useCurrent: () => T | undefined }

/** Binds a token; replaces an earlier binding. */
export function bind<T>(container: DependencyContainer, token: Token<T>, binding: Binding<T>): void {
  if ('useValue' in binding) container.register<T>(token, { useValue: binding.useValue })
  else if ('useCurrent' in binding)
    container.register<T>(token, { useFactory: () => opened(token, binding.useCurrent()) })
  else container.register<T>(token, { useFactory: instanceCachingFactory(binding.useFactory) })
}

function opened<T>(token: Token<T>, running: T | undefined): T {
  if (running !== undefined) return running
  throw new Error(`${contractName(token)} is not open: it can be used once the pipeline has started`)
}

/** Binds a token that is not bound: for the defaults of plugins. */
export function bindDefault<T>(container: DependencyContainer, token: Token<T>, binding: Binding<T>): void {
  if (!container.isRegistered(token, true)) bind(container, token, binding)
}

/** Throws if nothing is bound. Only the start may use it: calls must not resolve tokens. */
export function resolve<T>(container: DependencyContainer, token: Token<T>): T {
  return container.resolve<T>(token)
}

/** Undefined if nothing is bound. */
export function resolveOptional<T>(container: DependencyContainer, token: Token<T>): T | undefined {
  return container.isRegistered(token, true) ? container.resolve<T>(token) : undefined
}

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Milliseconds, monotonic, with fractions. */
  monotonic(): number
}

export interface Ids {
  /** 32 lower-case hex digits, never all zero (W3C Trace Context §3.2.2.3). */
  traceId(): string
  /** 16 lower-case hex digits, never all zero. */
  spanId(): string
  /** The flags that a call sends on, 2 hex digits; without it those of its caller, or 01 for a trace that begins here. */
  traceFlags?(traceId: string, callers: string | undefined): string
}

/** The part of pino's interface that stages may use. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** A metric that a stage counts or sets through `Meter`. */
export interface MetricEntry {
  /** A counter only rises, and its name ends in `_total`; a gauge is a current value; a histogram has durations. */
  readonly kind: 'counter' | 'gauge' | 'histogram'
  /** The help text, for operators. */
  readonly help: string
  /** A gauge without a sample before its first value, as 0 would be a statement. */
  readonly isEmptyAtFirst?: boolean
}

/** Counters, gauges and histograms for operators. */
export interface Meter {
  /** Shows metrics before their first value, with their help texts. */
  declare?(metrics: Readonly<Record<string, MetricEntry>>): void
  count(name: string, by?: number): void
  /** Sets the current value, which stays until the next one, even if a reload removes the stage. */
  gauge?(name: string, value: number): void
  /**
   * A gauge whose value is read whenever the metrics are, so that it is true even if the stage hangs; undefined is for a
   * value that is not known. To be ended by calling the result: then the gauge has the value of the watch before, if
   * that has not ended, as a reload that is refused leaves the old stage in force.
   */
  watch?(name: string, read: () => number | undefined): () => void
  /** Adds a duration, in seconds, to a histogram. */
  observe?(name: string, seconds: number): void
}

/** Whether records can be written, and what waits; an appender need not know all of it. */
interface AppenderHealth {
  writable: boolean
  error?: Error
  warning?: string
  /** Bytes of records that are not on disk yet. */
  pendingBytes?: number
  /** `pendingSince` in milliseconds since the epoch. */
  upload?: { readonly state: string; readonly pendingBytes: number; readonly pendingSince?: number }
}

/** The writer of audit records as stages use it; the class is in `svc-sdk/audit`. */
export interface Appender {
  /** Rejects when the log cannot be written. */
  ready?(): Promise<void>
  append(envelope: object): Promise<void>
  /** Writes to the raw payload dataset; optional. */
  appendRawPayload?(record: object): Promise<void>
  flush?(): Promise<void>
  close?(): Promise<void>
  /** False, with the reason, while the log cannot be written. */
  status?(): AppenderHealth
  /** The `writable` of `status()`, which is asked before every call. */
  readonly isWritable?: boolean
  /** `log_id` of its records, if they have one. */
  readonly logId?: string | undefined
}

/** Declares the metrics of a stage, in `create`. */
export function declareMetrics(
  container: DependencyContainer,
  metrics: Readonly<Record<string, MetricEntry>>,
): void {
  resolveOptional(container, tokens.Meter)?.declare?.(metrics)
}

export const tokens = {
  Signer: token<Signer>('Signer'),
  SvcAppender: token<Appender>('SvcAppender'),
  QuotaAdapter: token<QuotaAdapter>('QuotaAdapter'),
  DecisionEvaluator: token<DecisionEvaluator>('DecisionEvaluator'),
  ToolAnnotations: token<ToolAnnotations>('ToolAnnotations'),
  EscalationStore: token<KeyValueStore>('EscalationStore'),
  DedupeStore: token<KeyValueStore>('DedupeStore'),
  Clock: token<Clock>('Clock'),
  Ids: token<Ids>('Ids'),
  Logger: token<Logger>('Logger'),
  Meter: token<Meter>('Meter'),
  Notices: token<Notices>('Notices'),
} as const
