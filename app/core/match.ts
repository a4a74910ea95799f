// `svc-sdk/core/match`: references and patterns.
export {
  compilePatternMap,
  compilePatternSet,
  foldName,
  formatReference,
  PatternError,
  type PatternMap,
  type PatternSet,
  parseReference,
  type Reference,
} from '@svc/core/match'
