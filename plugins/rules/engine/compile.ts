// Compiles the tree of a checked expression to a function. The library parses and checks types; the evaluation is here, as
// it has to be bounded, exact, and cheap when it fails.
import type { ASTNode } from '@marcbachmann/cel-js'
import { isUnrecorded } from '@svc/core'
import { isExactNumber } from '@svc/core/json'
import { foldName } from '@svc/core/match'
import { calculate, compare, isAmong, isEqual, negate, operand } from './arithmetic.js'
import { Failure, fail, failAbsent } from './call-scope.js'
import {
  attemptValue,
  booleanOf,
  computedMember,
  type Evaluate,
  eitherDecides,
  given,
  hasMember,
  isList,
  isMap,
  member,
  NODE_NS,
  operands,
  typeOf,
  type Value,
} from './evaluation.js'
import { compileMatches, functions, methods, stringOf, typeNames } from './functions.js'
import { elementsOf, type Macro, macros } from './macros.js'
import { ExpressionError } from './mistake.js'
import { countNodes, isBounded, literalOf, pathOf, writtenPath } from './nodes.js'
import { partsIn, timestampParts } from './time.js'
import { type DeclaredFields, isRecord } from './types.js'

const ELEMENT_NS = 60
const TIME_NS = 20_000

/** A path that the expression reads, such as `args.customer.id`. */
export interface ReadPath {
  readonly path: string
  readonly names: readonly (string | number)[]
  readonly evaluate: Evaluate
  /** Whether the expression asks by `has` whether it is there. */
  readonly isTested: boolean
}

export class Compiler {
  readonly reads = new Map<string, ReadPath>()
  readonly #fields: DeclaredFields
  readonly #source: string
  readonly #locals: string[] = []

  constructor(fields: DeclaredFields, source: string) {
    this.#fields = fields
    this.#source = source
  }

  compile(node: ASTNode): Evaluate {
    switch (node.op) {
      case 'value':
        return this.#literal(node.args, node)
      case 'id':
        return this.#variable(node.args, node)
      case '.':
      case '[]':
        return this.#path(node) ?? this.#access(node)
      case 'list': {
        const items = node.args.map((item) => this.compile(item))
        return (evaluation) => items.map((item) => item(evaluation))
      }
      case '?:': {
        const [condition, then, otherwise] = node.args.map((part) => this.compile(part)) as [
          Evaluate,
          Evaluate,
          Evaluate,
        ]
        return (evaluation) => {
          const chosen = attemptValue(condition, evaluation)
          if (!isUnrecorded(chosen)) return (booleanOf(given(chosen)) ? then : otherwise)(evaluation)
          const results = [then, otherwise].map((branch) => attemptValue(branch, evaluation))
          const failure = results.find((result) => result instanceof Failure)
          throw failure !== undefined && results.every((result) => result instanceof Failure)
            ? failure
            : chosen
        }
      }
      case '||':
      case '&&':
        return eitherDecides(node.op === '||', this.compile(node.args[0]), this.compile(node.args[1]))
      case '!_': {
        const of = this.compile(node.args)
        return (evaluation) => !booleanOf(of(evaluation))
      }
      case '-_': {
        const of = this.compile(node.args)
        return (evaluation) => negate(of(evaluation))
      }
      case 'call':
        return this.#call(node.args[0], node.args[1], node)
      case 'rcall':
        return this.#method(node.args[0], node.args[1], node.args[2], node)
      case '==':
      case '!=':
        return this.#equality(node.op === '==', node.args)
      case 'in':
        return this.#membership(node.args)
      case '<':
      case '<=':
      case '>':
      case '>=':
        return this.#comparison(node.op, node.args)
      case '+':
      case '-':
      case '*':
      case '/':
      case '%': {
        const { op } = node
        const [left, right] = [this.compile(node.args[0]), this.compile(node.args[1])]
        return (evaluation) => calculate(op, ...operands(left, right, evaluation), evaluation)
      }
      default:
        throw new ExpressionError('this is not supported in conditions', node.range)
    }
  }

  #literal(value: unknown, node: ASTNode): Evaluate {
    if (typeof value === 'object' && value !== null)
      throw new ExpressionError('bytes and unsigned numbers are not supported', node.range)
    const { start, end } = node.range
    if (typeof value === 'number' && !isExactNumber(this.#source.slice(start, end))) {
      throw new ExpressionError('a double does not represent this number exactly', node.range)
    }
    const literal = value as Value
    return () => literal
  }

  #variable(name: string, node: ASTNode, isWithinPath = false): Evaluate {
    const depth = this.#locals.lastIndexOf(name)
    if (depth >= 0) return ({ locals }) => locals[depth] ?? null
    const type = typeNames.get(name)
    if (type !== undefined) return () => type
    if (name !== 'args' && name !== 'params' && !this.#fields.has(name)) {
      throw new ExpressionError(`${name} is not supported in conditions`, node.range)
    }
    if (name !== 'args' && name !== 'params') {
      throw new ExpressionError(
        `write which member of ${name} is meant, as in ${name}.${this.#fields.get(name)?.[0] ?? 'name'}`,
        node.range,
      )
    }
    const evaluate: Evaluate = ({ variables }) => variables[name]
    if (!isWithinPath) this.reads.set(name, { path: name, names: [name], evaluate, isTested: false })
    return evaluate
  }

  /** A path from a variable on, which explanations show; undefined for members of other values. */
  #path(node: ASTNode, isTested = false): Evaluate | undefined {
    const names = pathOf(node)
    const root = String(names?.[0])
    if (names === undefined || this.#locals.includes(root)) return undefined
    if (isRecord(root)) this.#checkField(root, names[1], node)
    const evaluate = this.#access(node)
    const path = writtenPath(names)
    const known = this.reads.get(path)
    this.reads.set(path, { path, names, evaluate, isTested: isTested || known?.isTested === true })
    return evaluate
  }

  #checkField(root: string, field: string | number | undefined, node: ASTNode): void {
    const known = this.#fields.get(root) ?? []
    if (typeof field === 'string' && known.includes(field)) return
    throw new ExpressionError(
      `${root} has no ${String(field)}; known: ${known.join(', ') || 'none'}`,
      node.range,
    )
  }

  #access(node: ASTNode): Evaluate {
    if (node.op !== '.' && node.op !== '[]') return this.compile(node)
    const [inner, key] = node.args
    const name = typeof key === 'string' ? key : literalOf(key)
    if (inner.op === 'id' && isRecord(inner.args) && !this.#locals.includes(inner.args))
      return this.#field(inner.args, name, node)
    const isAccess = inner.op === '.' || inner.op === '[]'
    // The whole path is one read; of a path that goes on with a computed name, the part before it.
    const isPath = pathOf(node) !== undefined
    const of =
      inner.op === 'id'
        ? this.#variable(inner.args, inner, true)
        : isAccess && isPath
          ? this.#access(inner)
          : this.compile(inner)
    const written = pathOf(node)
    if (typeof name === 'string') return member(of, name, written === undefined ? name : writtenPath(written))
    if (typeof key === 'string') throw new ExpressionError('this is not supported in conditions', node.range)
    const index = this.compile(key)
    return (evaluation) => {
      const value = of(evaluation)
      const at = index(evaluation)
      if (typeof at === 'string') return computedMember(value, at, evaluation)
      if (!isList(value)) return fail(`a ${typeOf(value)} has no items`)
      const item = operand(at)
      const found: Value | undefined =
        typeof item === 'bigint' || typeof item === 'number' ? value[Number(item)] : undefined
      if (found !== undefined) return found
      // A computed index is a value of the call, and messages are recorded.
      return fail(name === undefined ? 'the list has no such item' : `the list has no item ${name}`)
    }
  }

  #field(root: string, name: unknown, node: ASTNode): Evaluate {
    if (typeof name !== 'string')
      throw new ExpressionError(`a member of ${root} is named by a literal`, node.range)
    this.#checkField(root, name, node)
    const record = root as 'caller' | 'claimed' | 'tool' | 'call' | 'vars'
    return ({ variables }) => {
      const value = variables[record][name]
      return value === undefined ? failAbsent(`${root}.${name}`) : (value as Value)
    }
  }

  #comparison(op: '<' | '<=' | '>' | '>=', [a, b]: readonly [ASTNode, ASTNode]): Evaluate {
    const [left, right] = [this.compile(a), this.compile(b)]
    return (evaluation) => compare(op, ...operands(left, right, evaluation), evaluation)
  }

  #equality(isPositive: boolean, [a, b]: readonly [ASTNode, ASTNode]): Evaluate {
    const [left, right] = [this.compile(a), this.compile(b)]
    return (evaluation) => isEqual(...operands(left, right, evaluation), evaluation) === isPositive
  }

  #membership([a, b]: readonly [ASTNode, ASTNode]): Evaluate {
    const [item, collection] = [this.compile(a), this.compile(b)]
    return (evaluation) => {
      const [sought, within] = operands(item, collection, evaluation)
      if (isList(within)) return isAmong(sought, within, evaluation)
      if (!isMap(within)) return fail(`in is not defined for ${typeOf(within)}`)
      const name = stringOf(sought)
      evaluation.budget.charge(name.length * 10)
      return hasMember(within, foldName(name), evaluation)
    }
  }

  #call(name: string, args: readonly ASTNode[], node: ASTNode): Evaluate {
    if (name === 'has') return this.#has(args[0], node)
    const run = functions.get(name)
    if (run === undefined) throw new ExpressionError(`the function ${name} is not supported`, node.range)
    const given = args.map((arg) => this.compile(arg))
    return (evaluation) =>
      run(
        given.map((arg) => arg(evaluation)),
        evaluation,
      )
  }

  #has(node: ASTNode | undefined, call: ASTNode): Evaluate {
    if (node?.op !== '.') throw new ExpressionError('has names a member, as in has(args.amount)', call.range)
    const [inner, name] = node.args
    this.#path(node, true)
    if (inner.op === 'id' && isRecord(inner.args) && !this.#locals.includes(inner.args)) {
      const record = inner.args
      this.#checkField(record, name, node)
      return ({ variables }) => variables[record][name] !== undefined
    }
    const of = inner.op === 'id' ? this.#variable(inner.args, inner, true) : this.#access(inner)
    const folded = foldName(name)
    return (evaluation) => hasMember(of(evaluation), folded, evaluation)
  }

  #method(name: string, receiver: ASTNode, args: readonly ASTNode[], node: ASTNode): Evaluate {
    const macro = macros.get(name)
    if (macro !== undefined) return this.#macro(macro, receiver, args, node)
    const of = this.compile(receiver)
    if (name === 'matches') return this.#matches(of, args[0], node)
    const read = timestampParts.get(name)
    if (read !== undefined) return this.#timePart(of, read, args[0], node)
    const run = methods.get(name)
    if (run === undefined) throw new ExpressionError(`the method ${name} is not supported`, node.range)
    const given = [of, ...args.map((arg) => this.compile(arg))]
    return (evaluation) =>
      run(
        given.map((arg) => arg(evaluation)),
        evaluation,
      )
  }

  #matches(of: Evaluate, arg: ASTNode | undefined, node: ASTNode): Evaluate {
    const pattern = arg === undefined ? undefined : literalOf(arg)
    if (typeof pattern !== 'string')
      throw new ExpressionError('the pattern of matches is a literal', (arg ?? node).range)
    const test = compileMatches(pattern, (arg ?? node).range)
    return (evaluation) => test(stringOf(of(evaluation)), evaluation.budget)
  }

  #timePart(
    of: Evaluate,
    { part, base }: { part: Parameters<ReturnType<typeof partsIn>>[1]; base: number },
    zone: ASTNode | undefined,
    node: ASTNode,
  ): Evaluate {
    const name = zone === undefined ? 'UTC' : literalOf(zone)
    if (typeof name !== 'string')
      throw new ExpressionError('a time zone is a literal, as in "Europe/Berlin"', node.range)
    let read: ReturnType<typeof partsIn>
    try {
      read = partsIn(name)
    } catch (cause) {
      throw new ExpressionError(`"${name}" is not a time zone`, (zone ?? node).range, { cause })
    }
    return (evaluation) => {
      const time = of(evaluation)
      evaluation.budget.charge(TIME_NS)
      return time instanceof Date
        ? BigInt(read(time, part) - base)
        : fail(`a timestamp is expected, not a ${typeOf(time)}`)
    }
  }

  #macro(run: Macro, receiver: ASTNode, args: readonly ASTNode[], node: ASTNode): Evaluate {
    const [variable, ...bodies] = args
    const local = variable?.op === 'id' ? variable.args : undefined
    if (local === undefined)
      throw new ExpressionError('a macro takes a variable and an expression', node.range)
    if (this.#fields.has(local) || local === 'args' || local === 'params' || this.#locals.includes(local)) {
      throw new ExpressionError(`"${local}" is a variable already`, variable?.range)
    }
    if (this.#locals.length > 0 && !isBounded(receiver)) {
      throw new ExpressionError(
        'a macro within a macro goes over a literal list or over vars',
        receiver.range,
      )
    }
    const over = this.compile(receiver)
    const depth = this.#locals.push(local) - 1
    const [first, second] = bodies.map((body) => this.compile(body))
    this.#locals.pop()
    if (first === undefined)
      throw new ExpressionError('a macro takes a variable and an expression', node.range)
    const costNs = ELEMENT_NS + countNodes(bodies) * NODE_NS
    return (evaluation) => {
      const items = elementsOf(over(evaluation), evaluation)
      const bind =
        (body: Evaluate): Evaluate =>
        (inner) => {
          inner.budget.charge(costNs)
          return body(inner)
        }
      return run({ items, depth, evaluation, first: bind(first), second })
    }
  }
}
