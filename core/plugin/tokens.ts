// Typed names for what users swap through the container. tsyringe's symbol tokens carry no type of their
// own, so a token here does, and these three functions are how they are used.
import 'reflect-metadata'
import { type DependencyContainer, instanceCachingFactory } from 'tsyringe'
import { contractSymbol } from '../call/contract.js'
import type { ToolAnnotations } from '../call/tool-annotations.js'
import type { DedupeStore } from './dedupe-store.js'
import type { EscalationStore } from './escalation-store.js'
import type { DecisionEvaluator } from './evaluation.js'
import type { QuotaAdapter } from './quota-adapter.js'
import type { Signer } from './signer.js'

export type Token<T> = symbol & { readonly type?: T }

/** One name is one token, in every copy of this package: a plugin's own begin with its section (`authn/JwksSource`). */
export function token<T>(name: string): Token<T> {
  return contractSymbol('token', name)
}

/** What makes the value: the value itself, or a factory called once, on first use. */
export type Binding<T> = { useValue: T } | { useFactory: (container: DependencyContainer) => T }

/** Binds a token, in place of any earlier binding's effect. */
export function bind<T>(container: DependencyContainer, token: Token<T>, binding: Binding<T>): void {
  if ('useValue' in binding) container.register<T>(token, { useValue: binding.useValue })
  else container.register<T>(token, { useFactory: instanceCachingFactory(binding.useFactory) })
}

/** Binds a token unless it is bound: for the defaults of plugins. */
export function bindDefault<T>(container: DependencyContainer, token: Token<T>, binding: Binding<T>): void {
  if (!container.isRegistered(token, true)) bind(container, token, binding)
}

/** Throws when nothing is bound. Start-up only: no call resolves anything. */
export function resolve<T>(container: DependencyContainer, token: Token<T>): T {
  return container.resolve<T>(token)
}

/** Undefined when nothing is bound. */
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
}

/** The part of pino's interface that stages may use. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Counters for what an operator must be told though no call carries it. */
export interface Meter {
  count(name: string, by?: number): void
  /** What is now so much. */
  gauge?(name: string, value: number): void
}

/** The writer of audit records, as stages see it; `svc-sdk/audit` has the class. */
export interface Appender {
  /** Rejects when the log cannot be written at all. */
  ready?(): Promise<void>
  append(envelope: object): Promise<void>
  /** For the raw payload dataset; a writer without it can have none. */
  appendRawPayload?(record: object): Promise<void>
  flush?(): Promise<void>
  close?(): Promise<void>
  /** False, with the reason, while the log cannot be written. */
  status?(): { writable: boolean; error?: Error; warning?: string }
}

export const tokens = {
  Signer: token<Signer>('Signer'),
  SvcAppender: token<Appender>('SvcAppender'),
  QuotaAdapter: token<QuotaAdapter>('QuotaAdapter'),
  DecisionEvaluator: token<DecisionEvaluator>('DecisionEvaluator'),
  ToolAnnotations: token<ToolAnnotations>('ToolAnnotations'),
  EscalationStore: token<EscalationStore>('EscalationStore'),
  DedupeStore: token<DedupeStore>('DedupeStore'),
  Clock: token<Clock>('Clock'),
  Ids: token<Ids>('Ids'),
  Logger: token<Logger>('Logger'),
  Meter: token<Meter>('Meter'),
} as const
