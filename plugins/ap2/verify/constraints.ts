// The constraints of an open mandate, checked against the action under it (AP2 v0.2). An unknown constraint fails.
import { canonicalize, type JsonValue } from '@svc/core/json'
import { z } from 'zod'
import type { Checkout, Constraint, OpenPaymentBody, PaymentBody } from '../mandate/bodies.js'
import { MandateError } from '../mandate/error.js'
import { meetsRequirements } from './line-items.js'
import type { Action, OpenMandate } from './signed-mandate.js'

interface ConstraintContext {
  /** Milliseconds since the epoch. */
  readonly now: number
  /** Digests of the open checkout mandates of the call, or the one that the call asserts; undefined if that is missing. */
  readonly openCheckouts: ReadonlySet<string> | string | undefined
}

/** @throws {MandateError} for the first constraint that the action violates */
export function checkConstraints(
  { body, hidesTerms }: OpenMandate,
  action: Action,
  context: ConstraintContext,
): void {
  if (hidesTerms) throw violated('the open mandate hides something that may restrict')
  if (body.vct === 'mandate.checkout.open.1') {
    if (action.kind !== 'checkout') return
    for (const constraint of body.constraints) checkCheckout(constraint, action.checkout)
    return
  }
  if (action.kind !== 'payment') return
  checkPreset(body, action.body)
  for (const constraint of body.constraints) checkPayment(constraint, action.body, context)
}

const entries = z.array(z.looseObject({ id: z.string().min(1) }))
const checkoutConstraint = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('checkout.allowed_merchants'), allowed: entries }),
  z.looseObject({
    type: z.literal('checkout.line_items'),
    items: z
      .array(z.looseObject({ acceptable_items: entries, quantity: z.int().min(1) }))
      .min(1)
      .max(100),
  }),
])

function checkCheckout(constraint: Constraint, checkout: Checkout): void {
  const { success, data } = checkoutConstraint.safeParse(constraint)
  if (!success) throw unknown(constraint)
  if (data.type === 'checkout.allowed_merchants') {
    if (!isAmong(data.allowed, checkout.merchant?.id)) throw violated(data.type)
    return
  }
  const items = new Map<string, number>()
  for (const { item, quantity } of checkout.line_items) {
    items.set(item.id, (items.get(item.id) ?? 0) + quantity)
  }
  const requirements = data.items.map(({ acceptable_items, quantity }) => ({
    accepted: new Set(acceptable_items.map(({ id }) => id)),
    quantity,
  }))
  if (!meetsRequirements(items, requirements)) throw violated(data.type)
}

const date = z.string().refine((text) => Number.isFinite(Date.parse(text)))
const paymentConstraint = z.discriminatedUnion('type', [
  z.looseObject({
    type: z.literal('payment.amount_range'),
    currency: z.string(),
    max: z.int(),
    min: z.int().optional(),
  }),
  z.looseObject({ type: z.literal('payment.allowed_payees'), allowed: entries }),
  z.looseObject({ type: z.literal('payment.allowed_payment_instruments'), allowed: entries }),
  z.looseObject({
    type: z.literal('payment.allowed_pisps'),
    allowed: z.array(z.looseObject({ domain_name: z.string().min(1) })),
  }),
  z.looseObject({ type: z.literal('payment.reference'), conditional_transaction_id: z.string() }),
  z.looseObject({
    type: z.literal('payment.execution_date'),
    not_before: date.optional(),
    not_after: date.optional(),
  }),
])

function checkPayment(constraint: Constraint, payment: PaymentBody, context: ConstraintContext): void {
  const { success, data } = paymentConstraint.safeParse(constraint)
  if (!success) throw unknown(constraint)
  if (!isMet(data, payment, context)) throw violated(data.type)
}

function isMet(
  constraint: z.output<typeof paymentConstraint>,
  { payment_amount: { amount, currency }, payee, payment_instrument, pisp, execution_date }: PaymentBody,
  { now, openCheckouts }: ConstraintContext,
): boolean {
  switch (constraint.type) {
    case 'payment.amount_range': {
      const isWithin = amount <= constraint.max && amount >= (constraint.min ?? 0)
      return currency === constraint.currency && isWithin
    }
    case 'payment.allowed_payees':
      return isAmong(constraint.allowed, payee.id)
    case 'payment.allowed_payment_instruments':
      return isAmong(constraint.allowed, payment_instrument.id)
    case 'payment.allowed_pisps':
      return constraint.allowed.some(({ domain_name }) => domain_name === pisp?.domain_name)
    case 'payment.reference':
      if (openCheckouts === undefined) throw unresolved(constraint.type)
      return typeof openCheckouts === 'string'
        ? openCheckouts === constraint.conditional_transaction_id
        : openCheckouts.has(constraint.conditional_transaction_id)
    case 'payment.execution_date': {
      // Without a date the payment is executed at once.
      const at = execution_date === undefined ? now : Date.parse(execution_date)
      const { not_before, not_after } = constraint
      const isLate = not_after !== undefined && at > Date.parse(not_after)
      return Number.isFinite(at) && !isLate && (not_before === undefined || at >= Date.parse(not_before))
    }
  }
}

/** The members that the user has set in the open mandate must be unchanged. */
function checkPreset(open: OpenPaymentBody, payment: PaymentBody): void {
  if (open.payee !== undefined && open.payee.id !== payment.payee.id) throw violated('payee')
  for (const name of ['payment_amount', 'payment_instrument', 'pisp', 'execution_date'] as const) {
    if (open[name] !== undefined && !isSame(open[name], payment[name])) throw violated(name)
  }
}

function isSame(left: unknown, right: unknown): boolean {
  return right !== undefined && canonicalize(left as JsonValue) === canonicalize(right as JsonValue)
}

function isAmong(allowed: readonly { readonly id: string }[], id: string | undefined): boolean {
  return allowed.some((entry) => entry.id === id)
}

function violated(what: string): MandateError {
  return new MandateError('ap2_constraint_violated', `the open mandate does not allow it: ${what}`)
}

function unresolved(what: string): MandateError {
  return new MandateError(
    'ap2_unresolved_constraint',
    `the call asserts no open checkout, which ${what} refers to: ap2.tools.bind has no openCheckoutHash, or nothing is there`,
  )
}

function unknown({ type }: Constraint): MandateError {
  const name = /^[a-z_.]{1,60}$/.test(type) ? type : 'of another name'
  return violated(`a constraint that this gateway cannot check (${name})`)
}
